"""Runs the steps of a composite GitHub Action as a runner would: 'if', 'env', inputs, outputs, PATH, summary.

Of the expressions only what actions of this tree use: a context's member, a string, ==, !=, &&, || and always().
"""

import os
import re
import subprocess

import yaml

CONTEXT = re.compile(r"'[^']*'|(?:inputs|steps|github)(?:\.[A-Za-z_][\w-]*)+")


class Run:
    """One use of the action: `failed`, `log`, `summary` and `outputs` are what the job sees."""

    def __init__(self, action, workspace, temporary, inputs=None, github=None, environment=None):
        with open(action) as file:
            self.action = yaml.safe_load(file)
        unknown = set(inputs or {}) - set(self.action["inputs"])
        if unknown:
            raise ValueError(f"the action has no input {sorted(unknown)}")
        self.contexts = {
            "inputs": {name: str(entry.get("default", "")) for name, entry in self.action["inputs"].items()},
            "steps": {},
            "github": {"base_ref": "", **(github or {})},
        }
        self.contexts["inputs"].update(inputs or {})
        self.workspace, self.temporary = str(workspace), str(temporary)
        self.path = []
        self.environment = dict(os.environ, **(environment or {}))
        self.failed, self.log, self.summary, self.ran = False, "", "", []
        for step in self.action["runs"]["steps"]:
            self.run(step)
        self.outputs = {name: self.text(entry["value"]) for name, entry in self.action.get("outputs", {}).items()}

    def value(self, expression):
        """Of one operand."""
        if expression.startswith("'"):
            return expression[1:-1]
        found = self.contexts
        for member in expression.split("."):
            found = found.get(member, "") if isinstance(found, dict) else ""
        return found

    def text(self, template):
        return re.sub(r"\$\{\{\s*(.*?)\s*\}\}", lambda m: str(self.value(m[1])), str(template))

    def holds(self, condition):
        """'a != b && c == d': && binds before ||."""
        always = "always()" in condition
        if self.failed and not always:
            return False
        return any(all(self.compares(part) for part in side.split("&&")) for side in condition.split("||"))

    def compares(self, part):
        part = part.strip()
        if part in ("", "always()"):
            return True
        match = re.fullmatch(rf"({CONTEXT.pattern})\s*(==|!=)\s*({CONTEXT.pattern})", part)
        if not match:
            raise ValueError(f"not understood: if: {part}")
        equal = self.value(match[1]) == self.value(match[3])
        return equal == (match[2] == "==")

    def run(self, step):
        if not self.holds(step.get("if", "")):
            return
        if step.get("shell") != "bash" or "${{" in step["run"]:
            raise ValueError(f"{step['name']}: bash, and inputs through env alone: they are no code")
        files = {name: os.path.join(self.temporary, name) for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
        for name in files.values():
            open(name, "w").close()
        environment = {**self.environment, **files, "RUNNER_TEMP": self.temporary,
                       "PATH": os.pathsep.join([*self.path, self.environment["PATH"]])}
        environment.update({name: self.text(value) for name, value in step.get("env", {}).items()})
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=self.workspace,
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        self.ran.append(step["name"])
        self.log += done.stdout
        self.failed |= done.returncode != 0
        self.take(step, files)

    def take(self, step, files):
        """What the step left in its files."""
        content = {}
        for name, path in files.items():
            with open(path) as file:
                content[name] = file.read()
        self.summary += content["GITHUB_STEP_SUMMARY"]
        self.path = content["GITHUB_PATH"].split() + self.path
        outputs = dict(line.split("=", 1) for line in content["GITHUB_OUTPUT"].splitlines())
        self.contexts["steps"][step.get("id", step["name"])] = {"outputs": outputs}
