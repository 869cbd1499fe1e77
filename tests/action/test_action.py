"""The GitHub Action, the pre-commit hook and the pipelines of docs/ci.md, on a repository in a temporary folder:

    make test-action

Needs git and PyYAML; what is beyond Python's own (pre-commit, the schema of SARIF) is skipped where it is missing.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml

    from run_steps import Run
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KVCAL = os.path.abspath(os.environ.get("KVCAL", os.path.join(SOURCE, "build", "release", "kvcal")))
ACTION = os.path.join(SOURCE, "apps", "action", "action.yml")
MODEL = os.path.join(SOURCE, "datasets", "demo", "stressed")
IDENTITY = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "a"), ("EMAIL", "a@example.org"))}
ENVIRONMENT = {**IDENTITY, "PATH": os.path.dirname(KVCAL) + os.pathsep + os.environ["PATH"],
               "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def sh(command, cwd, check=True):
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **ENVIRONMENT}, shell=isinstance(command, str),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    if check and done.returncode:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}")
    return done


class Repository(unittest.TestCase):
    """A repository with prompts and a scale file in its branch main, cloned from another."""

    def setUp(self):
        self.scratch = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.scratch)
        self.temporary = os.path.join(self.scratch, "temporary")
        self.folder = os.path.join(self.scratch, "clone")
        origin = os.path.join(self.scratch, "origin")
        for folder in (origin, self.temporary):
            os.mkdir(folder)
        with open(os.path.join(SOURCE, "datasets", "demo", "prompts.jsonl")) as file:
            lines = file.readlines()[:6]
        self.write("chats.jsonl", "".join(lines), origin)
        sh(f"git init -q -b main && ln -s '{MODEL}' model && "
           "kvcal calibrate model --prompts chats.jsonl -q && git add chats.jsonl kv-cache-scales.json && "
           "git commit -qm first", origin)
        sh(["git", "clone", "-q", "file://" + origin, self.folder], self.scratch)
        os.symlink(MODEL, os.path.join(self.folder, "model"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def write(self, name, text, folder=None):
        with open(os.path.join(folder or self.folder, name), "w") as file:
            file.write(text)

    def change_prompts(self):
        self.write("chats.jsonl", self.read("chats.jsonl").replace('"content": "', '"content": "Please: ', 1))

    def use(self, github=None, **inputs):
        """The action on the clone as it is."""
        return Run(ACTION, self.folder, self.temporary, {"package": "", **inputs}, github, ENVIRONMENT)


class Action(Repository):
    def test_a_good_file_is_left_alone(self):
        before = self.read("kv-cache-scales.json")
        run = self.use(model="model", prompts="chats.jsonl")
        self.assertFalse(run.failed, run.log)
        self.assertEqual(run.outputs["changed"], "false")
        self.assertEqual(self.read("kv-cache-scales.json"), before)
        self.assertIn("is up to date", run.summary)
        self.assertIn("kv-cache-scales.json: valid", run.summary)
        self.assertNotIn("Compare with the base branch", run.ran)
        self.assertNotIn("Evaluate", run.ran)

    def test_a_project_file_is_read_and_the_summary_has_the_answers(self):
        self.write("kvcal.toml", "model = 'model'\nprompts = ['chats.jsonl']\nserver = \"vllm@0.33\"\n[limits]\nmax-kl = 0.5\n")
        run = self.use({"base_ref": "main"})
        self.assertFalse(run.failed and "would not use" not in run.log, run.log)
        self.assertEqual(run.outputs["changed"], "false")
        for sentence in ("needed: scale 1.0 would change the attention of layer(s) 3, 7", "next: serve with the file:",
                         "0 of 6 scales changed", "### vllm@0.33", "### Evaluation\n", "mean KL"):
            self.assertIn(sentence, run.summary)
        self.assertFalse([line for line in run.summary.splitlines() if len(line) > 100 and not line.startswith(("  ", "kvcal: "))])
        self.change_prompts()
        self.assertEqual(self.use().outputs["changed"], "true")

    def test_without_a_model_the_file_is_checked_alone(self):
        run = self.use()
        self.assertFalse(run.failed, run.log)
        self.assertEqual(run.outputs["changed"], "")
        self.assertEqual(run.ran, ["Begin the summary", "Validate the scale file", "Verdict"])

    def test_changed_prompts_calibrate_again(self):
        self.change_prompts()
        run = self.use({"base_ref": "main"}, model="model", prompts="chats.jsonl\n")
        self.assertFalse(run.failed, run.log)
        self.assertEqual(run.outputs["changed"], "true")
        self.assertIn("calibrating again; changed: prompts", run.summary)
        self.assertIn("calibration.prompts_sha256", run.summary)
        self.assertRegex(run.summary, r"\d+ of \d+ scales changed")
        self.assertIn('"event":"progress"', run.log)
        self.assertNotIn('"event"', run.summary)
        self.assertEqual(self.use(model="model", prompts="chats.jsonl").outputs["changed"], "false")

    def test_check_fails_on_a_stale_file_and_leaves_it(self):
        self.assertFalse(self.use(model="model", prompts="chats.jsonl", check="true").failed)
        before = self.read("kv-cache-scales.json")
        self.change_prompts()
        run = self.use(model="model", prompts="chats.jsonl", check="true")
        self.assertTrue(run.failed)
        self.assertIn("is stale; changed: prompts", run.summary)
        self.assertEqual(self.read("kv-cache-scales.json"), before)

    def test_a_damaged_file_fails_and_is_annotated(self):
        self.write("kv-cache-scales.json", self.read("kv-cache-scales.json")[:2000])
        for inputs in ({}, {"model": "model", "prompts": "chats.jsonl"}):
            run = self.use({"base_ref": "main"}, **inputs)
            self.assertTrue(run.failed)
            self.assertRegex(run.log, r"(?m)^::error file=kv-cache-scales\.json,line=\d+,title=A01::")
            self.assertIn("::error title=kvcal::the scale file is not valid", run.log)
            self.assertIn("NOT valid", run.summary)
        self.assertIn("::error title=kvcal::the calibration failed", run.log)
        self.assertIn("--force replaces it", run.summary)

    def test_an_edited_scale_is_calibrated_again_or_reported(self):
        good = self.read("kv-cache-scales.json")
        edited = re.sub(r'("key": \{\s*"scale": )[0-9.e-]+', r"\g<1>0.5", good, count=1)
        self.assertNotEqual(edited, good)
        self.write("kv-cache-scales.json", edited)
        run = self.use()
        self.assertTrue(run.failed)
        self.assertIn("error S14 layers[0].key.scale", run.summary)
        run = self.use(model="model", prompts="chats.jsonl")
        self.assertFalse(run.failed, run.log)
        self.assertEqual(self.read("kv-cache-scales.json"), good)

    def test_sarif_is_a_file_that_an_output_names(self):
        self.write("kv-cache-scales.json", "{")
        run = self.use(format="sarif")
        self.assertTrue(run.failed)
        self.assertNotIn("::error file=", run.log)
        with open(run.outputs["sarif"]) as file:
            self.assertEqual(json.load(file)["runs"][0]["results"][0]["ruleId"], "A01")

    def test_an_unknown_format_fails(self):
        for name in ("typo", "", "json"):
            run = self.use(format=name)
            self.assertTrue(run.failed, name)
            self.assertIn(f"::error title=kvcal::the input format is '{name}', expected github, sarif or text", run.log)
            self.assertIn("kv-cache-scales.json: valid", run.summary)

    def test_a_broken_base_is_told_and_no_fault_of_the_change(self):
        origin = os.path.join(self.scratch, "origin")
        self.write("kv-cache-scales.json", "{", origin)
        sh("git commit -qam broken", origin)
        run = self.use({"base_ref": "main"})
        self.assertFalse(run.failed, run.log)
        self.assertIn("kvcal: error: ", run.summary)

    def test_limits(self):
        run = self.use(model="model", prompts="chats.jsonl", limits="--max-kl 0.5")
        self.assertFalse(run.failed, run.log)
        self.assertIn("### Evaluation: --max-kl 0.5", run.summary)
        shutil.rmtree(os.path.join(self.temporary, "kvcal"))
        run = self.use(model="model", prompts="chats.jsonl", limits="--max-kl 0 --min-agreement 1")
        self.assertTrue(run.failed)
        self.assertIn("mean KL is", run.summary)

    def test_what_the_server_will_use(self):
        run = self.use(model="model", prompts="chats.jsonl", server="vllm@0.33")
        self.assertIn("### vllm@0.33", run.summary)
        self.assertEqual(run.failed, "would not use" in run.log, run.log)

    def test_a_file_that_the_base_branch_does_not_have(self):
        os.rename(self.path("kv-cache-scales.json"), self.path("kv-cache-scales-2.json"))
        run = self.use({"base_ref": "main"}, scales="kv-cache-scales-2.json")
        self.assertFalse(run.failed, run.log)
        self.assertIn("main has no kv-cache-scales-2.json", run.summary)

    def test_inputs_are_no_code(self):
        run = self.use(scales="$(touch hit); `touch hit` \" ' x.json", limits="; touch hit", options="; touch hit",
                       model="$(touch hit)", prompts="`touch hit`")
        self.assertTrue(run.failed)
        self.assertFalse(os.path.exists(self.path("hit")))

    def test_a_package_is_installed_into_an_environment_of_its_own(self):
        package = os.path.join(self.scratch, "package")
        os.mkdir(package)
        self.write("setup.py", "from setuptools import setup\n"
                   "setup(name='kvcal-stand-in', version='1', scripts=['kvcal'])\n", package)
        self.write("kvcal", f"#!/bin/sh\necho \"the installed one\" >&2\nexec '{KVCAL}' \"$@\"\n", package)
        try:
            run = self.use(package=package)
        finally:
            shutil.rmtree(os.path.join(self.temporary, "kvcal-python"), ignore_errors=True)
        if "No matching distribution found for setuptools" in run.log:
            self.skipTest("pip cannot reach PyPI")
        self.assertFalse(run.failed, run.log)
        self.assertIn("the installed one", run.log)


class PreCommit(Repository):
    def setUp(self):
        super().setUp()
        with open(os.path.join(SOURCE, ".pre-commit-hooks.yaml")) as file:
            [self.hook] = yaml.safe_load(file)

    def test_the_hook_on_files_as_pre_commit_gives_them(self):
        def result(*names):
            import shlex
            return sh([*shlex.split(self.hook["entry"]), *names], self.folder, check=False)

        shutil.copy(self.path("kv-cache-scales.json"), self.path("kv-cache-scales b.json"))
        self.assertEqual(result("kv-cache-scales.json", "kv-cache-scales b.json").returncode, 0)
        self.write("kv-cache-scales.json", "{")
        both = result("kv-cache-scales.json", "kv-cache-scales b.json")
        self.assertEqual(both.returncode, 1)
        self.assertIn("kv-cache-scales b.json: valid", both.stdout)

    def test_which_files(self):
        takes = re.compile(self.hook["files"]).search
        for name in ("kv-cache-scales.json", "models/a/kv-cache-scales.json", "kv-cache-scales-int8.json"):
            self.assertTrue(takes(name), name)
        for name in ("my-kv-cache-scales.json", "kv-cache-scales.json.txt", "kv-cache-scales/a.json"):
            self.assertFalse(takes(name), name)

    def test_pre_commit_itself(self):
        program = os.path.join(os.path.dirname(sys.executable), "pre-commit")
        if not os.path.exists(program):
            self.skipTest("pre-commit is not installed beside this Python")
        hooks = os.path.join(self.scratch, "hooks")
        os.mkdir(hooks)
        shutil.copy(os.path.join(SOURCE, ".pre-commit-hooks.yaml"), hooks)
        sh("git init -q && git add . && git commit -qm hooks && git tag v1", hooks)
        self.write(".pre-commit-config.yaml",
                   f"repos:\n- repo: file://{hooks}\n  rev: v1\n  hooks: [{{id: kvcal-validate}}]\n")
        sh("git add .pre-commit-config.yaml", self.folder)
        command = f"PRE_COMMIT_HOME='{self.scratch}/home' '{program}' run --all-files"
        good = sh(command, self.folder)
        self.assertIn("Passed", good.stdout)
        self.write("kv-cache-scales.json", self.read("kv-cache-scales.json")[:500])
        bad = sh(command, self.folder, check=False)
        self.assertEqual(bad.returncode, 1)
        self.assertIn("A01", bad.stdout)


class Pipelines(Repository):
    """Those of docs/ci.md for GitLab and Jenkins."""

    def setUp(self):
        super().setUp()
        with open(os.path.join(SOURCE, "docs", "ci.md")) as file:
            self.document = file.read()

    def block(self, heading):
        section = self.document.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
        return re.search(r"```\w+\n(.*?)```", section, re.S)[1]

    def scripts(self):
        [job] = yaml.safe_load(self.block("GitLab")).values()
        yield "GitLab", "\n".join(job["script"])
        yield "Jenkins", "\n".join(re.findall(r"sh '''(.*?)'''", self.block("Jenkins"), re.S))

    def result(self, script):
        """Without the installation; as both systems do, the first command that fails ends it."""
        lines = [line for line in script.splitlines() if not re.search(r"\b(pip install|venv)\b", line)]
        return sh(["bash", "-e", "-c", "\n".join(lines)], self.folder, check=False)

    def test_good_changed_and_damaged(self):
        first = self.read("kv-cache-scales.json")
        for name, script in self.scripts():
            with self.subTest(name):
                self.write("kv-cache-scales.json", first)
                good = self.result(script)
                self.assertEqual(good.returncode, 0, good.stdout)
                self.assertIn("up to date", good.stdout)
                before = self.read("chats.jsonl")
                self.change_prompts()
                self.assertIn("changed: prompts", self.result(script).stdout)
                self.write("chats.jsonl", before)
                self.write("kv-cache-scales.json", first[:2000])
                self.assertNotEqual(self.result(script).returncode, 0)


if __name__ == "__main__":
    unittest.main()
