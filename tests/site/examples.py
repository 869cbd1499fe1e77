"""examples.py TEST_VALIDATE [--update]: an example of every finding of validate, as the tests provoke it.

TEST_VALIDATE is the test program, which writes what it provokes where KVCAL_EXAMPLES says; findings that only cases of
tests/cli give are taken from there. Compares with docs/site/examples.txt, a line a rule, or writes it.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE / "docs" / "site" / "examples.txt"
SCRATCH = re.compile(f"'{re.escape(tempfile.gettempdir())}/[^'/]*/")
FINDING = re.compile(r"(?:error|warning|note) ([A-Z]+\d+[a-z]?) ")


def provoked(program):
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "examples")
        done = subprocess.run([program, "--gtest_brief=1"], env={**os.environ, "KVCAL_EXAMPLES": str(file)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise SystemExit(done.stdout)
        return file.read_text().splitlines()


def of_cases():
    for path in sorted((SOURCE / "tests/cli/validate").glob("*.stdout")):
        yield from (line.replace("*", "...") for line in path.read_text().splitlines())


def rules():
    return re.findall(r'Rule\{"(\w+)"', (SOURCE / "lib/check/rules.h").read_text())


def main(program, update):
    found = {}
    for line in [*provoked(program), *of_cases()]:
        if match := FINDING.match(line):
            found.setdefault(match[1], SCRATCH.sub("'", line))
    missing = [rule for rule in rules() if rule not in found]
    if missing:
        raise SystemExit(f"no test provokes {', '.join(missing)}")
    text = "".join(found[rule] + "\n" for rule in rules())
    if update:
        EXAMPLES.write_text(text)
    elif EXAMPLES.read_text() != text:
        print("docs/site/examples.txt is not what the tests provoke: run this with --update")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), "--update" in sys.argv))
