"""kvcal-torch where Python lacks what it needs: one line, exit code 2. Other modules of these names stand in for what is there."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parents[1] / "apps" / "python" / "pyproject.toml"


class Command(unittest.TestCase):
    def said(self, modules):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in modules.items():
                pathlib.Path(folder, name + ".py").write_text(text)
            environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run([sys.executable, HERE / "command.py", "calibrate", "model"], env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Akvcal-torch: error: cannot load what runs models: [^\n]+; it needs: pip install [^\n]+\n\Z")
        return done.stderr

    def test_what_is_missing_is_one_line(self):
        self.assertIn("No module named 'torch'", self.said({"torch": "raise ModuleNotFoundError(\"No module named 'torch'\")"}))
        self.assertIn("No module named 'transformers'",
                      self.said({"torch": "", "transformers": "raise ModuleNotFoundError(\"No module named 'transformers'\")"}))

    def test_what_is_too_old_or_broken_is_one_line(self):
        self.assertIn("cannot import name 'AttentionInterface'", self.said(
            {"torch": "", "transformers": "raise ImportError(\"cannot import name 'AttentionInterface'\")"}))
        self.assertIn("libtorch.so: cannot", self.said({"torch": "raise OSError('libtorch.so: cannot open shared object file\\nmore')"}))

    def test_it_asks_for_what_the_extra_brings(self):
        extra = re.search(r"^torch = \[(.*)\]$", PROJECT.read_text(), re.MULTILINE)[1]
        said = self.said({"torch": "raise ImportError('x')"}).split("pip install ")[1]
        self.assertEqual(sorted(re.findall(r'"([^"]+)"', extra)), sorted(said.replace("'", "").split()))


if __name__ == "__main__":
    unittest.main()
