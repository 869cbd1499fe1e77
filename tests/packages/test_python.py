"""kvcal.calibrate, evaluate and inspect, in the package as the wheel has it; and the Python that documents show."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KVCAL = os.environ.get("KVCAL", str(SOURCE / "build/release/kvcal"))
MODEL, CHATS = SOURCE / "datasets/demo/stressed", SOURCE / "datasets/demo/prompts.jsonl"
LINES = CHATS.read_text().splitlines(keepends=True)[:8]
RECORDS = [json.loads(line) for line in LINES]
SCALARS = {"integer": int, "number": float, "string": str, "boolean": bool}

SCRATCH = tempfile.TemporaryDirectory()
unittest.addModuleCleanup(SCRATCH.cleanup)
PACKAGE = pathlib.Path(SCRATCH.name, "kvcal")
(PACKAGE / "bin").mkdir(parents=True)
for module in SOURCE.glob("apps/python/kvcal/*.py"):
    (PACKAGE / module.name).symlink_to(module)
(PACKAGE / "kv_cache_scales").symlink_to(SOURCE / "apps/plugins/kv_cache_scales")
(PACKAGE / "_version.py").write_text('__version__ = "0"\n')
(PACKAGE / "bin/kvcal").symlink_to(KVCAL)
sys.path.insert(0, SCRATCH.name)
import kvcal  # noqa: E402
from kvcal import results  # noqa: E402


def run(*arguments):
    return subprocess.run([KVCAL, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_of(*arguments):
    return "; ".join(re.findall("^kvcal: (?:error: )?(.*)$", run(*arguments).stderr, re.M))


class InFolder(unittest.TestCase):
    """An empty one; what is temporary has to be gone in the end."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        os.mkdir("tmp")
        self.enter(mock.patch.object(tempfile, "tempdir", os.path.abspath("tmp")))
        self.shown = self.enter(contextlib.redirect_stderr(io.StringIO()))

    def enter(self, context):
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def tearDown(self):
        self.assertEqual(os.listdir("tmp"), [])

    def refused(self, error, call, *args, **options):
        with self.assertRaises(error) as caught:
            call(*args, **options)
        self.assertIs(type(caught.exception), error)
        self.assertNotIn("\n", str(caught.exception))
        return caught.exception


class Verbs(InFolder):
    def test_calibrate(self):
        scales = kvcal.calibrate(MODEL, prompts=CHATS, max_prompts=8)
        self.assertEqual(os.listdir(), ["tmp"])
        self.assertIn("needed: scale 1.0 would change", self.shown.getvalue())
        run("calibrate", MODEL, "-p", CHATS, "--max-prompts", 8, "-q", "-o", "a.json")
        written = pathlib.Path("a.json").read_bytes()
        self.assertEqual((scales.to_json(), scales.to_dict()), (written, json.loads(written)))
        self.assertEqual((scales.layers[0].index, scales.layers[0].key.scale), (3, 4.0))
        self.assertRaises(dataclasses.FrozenInstanceError, setattr, scales.layers[0].key, "scale", 1.0)
        records = (json.loads(line) for line in CHATS.read_text().splitlines())
        self.assertEqual(kvcal.calibrate(MODEL, prompts=records, max_prompts=8, out="b.json", quiet=True), scales)
        self.assertEqual(pathlib.Path("b.json").read_bytes(), written)
        same = {"prompts": CHATS, "max_prompts": 8, "out": "b.json"}
        self.assertIn("b.json", str(self.refused(kvcal.Error, kvcal.calibrate, MODEL, **same)))
        self.assertEqual(kvcal.calibrate(MODEL, check=True, **same), scales)
        stale = self.refused(kvcal.Finding, kvcal.calibrate, MODEL, policy="absmax", check=True, **same)
        self.assertEqual((str(stale), stale.exit_code), ("b.json is stale; changed: --policy", 1))

    def test_evaluate(self):
        scales = kvcal.calibrate(MODEL, prompts=RECORDS, quiet=True)
        pathlib.Path("s.json").write_bytes(scales.to_json())
        pathlib.Path("p.jsonl").write_text("".join(LINES))
        made = kvcal.evaluate(MODEL, prompts="p.jsonl", scales=scales, formats=["int8", "fp8_e5m2"], out="e.json")
        self.assertEqual(made.to_dict(), json.loads(pathlib.Path("e.json").read_text()))
        self.assertEqual([v.name for v in made.variants[2:]], ["file", "swapped", "int8", "fp8_e5m2"])
        self.assertNotIn(tempfile.gettempdir(), self.shown.getvalue())  # "next:" names no file that is gone
        for same in ("s.json", [pathlib.Path("s.json")], kvcal.load_scales("s.json")):
            other = kvcal.evaluate(MODEL, prompts=RECORDS, scales=same, formats="int8,fp8_e5m2", quiet=True)
            self.assertEqual(other.to_json(), made.to_json())
        mean = made.conclusion.variants["file"].kl.value
        for error, code, limits in ((kvcal.Finding, 1, {"max_kl": mean, "min_agreement": 1}), (kvcal.Undecided, 3, {"max_kl": mean})):
            found = self.refused(error, kvcal.evaluate, MODEL, prompts=RECORDS, scales=scales, quiet=True, **limits)
            self.assertEqual((found.exit_code, found.evaluation.model), (code, made.model))
            words = [f"--{name.replace('_', '-')}={limit}" for name, limit in limits.items()]
            said = line_of("evaluate", MODEL, "-p", "p.jsonl", "--scales", "s.json", "-q", "-o", f"{code}.json", *words)
            self.assertEqual(str(found), said)

    def test_inspect(self):
        for name in ("qwen3", "deepseek_v2", "phi3_longrope", "gemma3n"):
            found = kvcal.inspect(SOURCE / "tests/arch/golden" / name)
            self.assertEqual(found.to_json().decode(), run("inspect", SOURCE / "tests/arch/golden" / name, "--json").stdout)
            for made in (found, *found.layers):
                self.assertLessEqual(set(made.to_dict()), {field.name for field in dataclasses.fields(made)})
        pathlib.Path("config.json").write_text('{"architectures": ["FooForCausalLM"]}')
        found = kvcal.inspect(".")
        self.assertEqual((found.supported, found.reason), (False, found.to_dict()["reason"]))
        self.assertEqual(str(self.refused(kvcal.Error, kvcal.inspect, "nowhere")), line_of("inspect", "nowhere"))

    def test_what_is_refused(self):
        for verb, name in ((kvcal.calibrate, "polcy"), (kvcal.evaluate, "max_kk"), (kvcal.evaluate, "options")):
            said = line_of(verb.__name__, MODEL, "--" + name.replace("_", "-"))
            self.assertEqual(str(self.refused(kvcal.Error, verb, MODEL, **{name: 1})), said)
        self.assertIn("'true'", str(self.refused(kvcal.Error, kvcal.calibrate, MODEL, policy=True)))
        self.refused(TypeError, kvcal.calibrate, MODEL, dry_run=True)
        self.refused(TypeError, kvcal.calibrate, MODEL, prompts=RECORDS[0])
        self.refused(TypeError, kvcal.calibrate, MODEL, prompts=[1])
        self.refused(ValueError, kvcal.calibrate, MODEL, prompts=["p.jsonl"])  # a text, and looks like a file
        self.assertIn("input:2: ", str(self.refused(kvcal.Error, kvcal.calibrate, MODEL, prompts=["text", {"id": 1}])))
        kvcal.calibrate(MODEL, prompts=["text", RECORDS[0]["messages"]], quiet=True)


class OtherPrograms(InFolder):
    def setUp(self):
        super().setUp()
        self.enter(mock.patch.object(kvcal, "program", lambda: pathlib.Path("tool").absolute()))

    def write(self, script):
        pathlib.Path("tool").write_text("#!/bin/sh\n" + script)
        os.chmod("tool", 0o755)

    def said(self):
        return str(self.refused(kvcal.Error, kvcal.calibrate, MODEL, prompts=["text"]))

    def test_none_and_one_that_dies(self):
        self.assertIn("tool': cannot be started: No such file", self.said())
        self.write("kill -9 $$")
        self.assertIn("ended by SIGKILL", self.said())

    def test_interrupted(self):
        self.write("trap 'echo >ended; exit 130' INT\necho >started\nsleep 60 & wait; kill $!")

        def interrupt():
            while not os.path.exists("started"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        self.refused(KeyboardInterrupt, kvcal.evaluate, MODEL, prompts=["text"])
        self.assertTrue(os.path.exists("ended"))

    def test_progress(self):
        event = {"event": "progress", "layer": 2, "n_layers": 8, "done": 0.25, "seconds_left": None}
        self.write(f"echo '{json.dumps(event)}' >&2\necho text >&2\necho 'kvcal: error: why' >&2\nexit 2")
        self.assertEqual((self.said(), self.shown.getvalue()), ("why", "text\n"))
        self.shown.isatty = lambda: True
        self.said()
        self.assertRegex(self.shown.getvalue(), "\rlayer 2 of 8, 25% *\r\r *\rtext\n\r *\r$")


class Schemas(unittest.TestCase):
    """What they describe are attributes of its type, Optional where it may be missing or null."""

    def resolved(self, node):
        made = {**node, "properties": {}, "required": []}
        for part in node.get("allOf", [node] if "$ref" in node else []):
            part = self.resolved(self.root["definitions"][part["$ref"].rsplit("/", 1)[1]])
            made = {**part, **made, "properties": part["properties"], "required": part["required"]}
        made["properties"] = {**made["properties"], **node.get("properties", {})}
        return {**made, "required": made["required"] + node.get("required", [])}

    def check(self, hint, node, where):
        """Whether it may be null."""
        if "anyOf" in node:
            return self.check(hint, node["anyOf"][0], where) or True
        node, kind, inner = self.resolved(node), typing.get_origin(hint), typing.get_args(hint)
        types = [node["type"]] if isinstance(node.get("type"), str) else node.get("type", [])
        if kind is typing.Union:
            self.check(inner[0], node, where)
        elif kind in (list, dict):
            self.check(inner[-1], node.get("items" if kind is list else "additionalProperties") or {}, where)
        elif dataclasses.is_dataclass(hint):
            self.collect(hint, node)
        elif hint is not typing.Any and types:
            self.assertIs(SCALARS[types[0]], hint, where)
        return "null" in types

    def collect(self, record, node):
        hints, members = typing.get_type_hints(record), {}
        for name in set(node["properties"]) - {"$schema"}:
            where = f"{record.__name__}.{name}"
            self.assertIn(name, hints, where)
            members[name] = not self.check(hints[name], node["properties"][name], where) and name in node["required"]
        if members:
            self.found.setdefault(record, []).append(members)

    def test_attributes(self):
        self.found = {}
        for name, record in (("kv-cache-scales", results.Scales), ("evaluation", results.Evaluation)):
            self.root = json.loads((SOURCE / f"schemas/{name}.v1.schema.json").read_text())
            self.collect(record, self.resolved(self.root))
        for record, found in self.found.items():
            for name, hint in typing.get_type_hints(record).items():
                is_always = all(members.get(name, False) for members in found)
                self.assertEqual(is_always, type(None) not in typing.get_args(hint), f"{record.__name__}.{name}")


class Documents(InFolder):
    def test_their_python(self):
        os.symlink(MODEL, "model")
        os.symlink(CHATS, "chats.jsonl")
        for document in ("install", "torch"):
            text = (SOURCE / f"docs/{document}.md").read_text()
            code, expected = re.search(r"^```python\n(import kvcal\n.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.S | re.M).groups()
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, document, "exec"), {})
            self.assertEqual(expected or printed.getvalue(), printed.getvalue())
            os.remove("kv-cache-scales.json")


if __name__ == "__main__":
    unittest.main()
