"""Takes one part after the other out of the rule, and says which case of test_verdicts turns red.

    break_parts.py [--only TEXT ...] [--write FILE]

Works on a copy of the tree in build/verdict-parts, which it builds as the tree itself is built, but for kernels of newer
processors; the tree is only read. A part names the case that holds it, which is tried first: all others are only where it stays
green, or where no case is named. Where statistics are only solved anew they are those of the whole rule. Fails
where a part is caught by no case, where a change of parts.toml does not fit its source any more or does not build, where
--only names no part, or where the copy is red before anything is taken out. --write: the table, into a file too.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
COPY = TREE / "build" / "verdict-parts"
TEST = COPY / "build" / "release" / "tests" / "verdicts" / "test_verdicts"
STATISTICS = COPY / "build" / "statistics"  # of all cases, with nothing taken out
MINUTES = 30


class Unfit(Exception):
    """A part that cannot be taken out."""


def tree_files():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=TREE, check=True,
                            capture_output=True, text=True).stdout
    return {f for f in listed.split("\0") if f and (TREE / f).is_file()}


def synchronize():
    """Writes only what differs, so that little is built again; what an earlier run left is undone."""
    COPY.mkdir(parents=True, exist_ok=True)
    wanted = tree_files()
    for name in sorted(wanted):
        text, copy = (TREE / name).read_bytes(), COPY / name
        if not copy.is_file() or copy.read_bytes() != text:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)
    for folder in COPY.iterdir():
        for path in [folder, *folder.rglob("*")] if folder.name != "build" else []:
            if path.is_file() and str(path.relative_to(COPY)) not in wanted:
                path.unlink()


def run(command, **environment):
    shared_cache = {"CCACHE_BASEDIR": str(COPY), "CCACHE_NOHASHDIR": "1"}  # with other copies of the tree
    try:
        return subprocess.run(command, cwd=COPY, capture_output=True, text=True, timeout=60 * MINUTES, errors="replace",
                              env={**os.environ, **shared_cache, **environment})
    except subprocess.TimeoutExpired:
        raise Unfit(f"took more than {MINUTES} minutes: {command[0]}") from None


def build():
    if not (COPY / "build" / "release" / "build.ninja").is_file():
        done = run(["cmake", "--preset", "release", "-DKVCAL_TESTS=ON", "-DKVCAL_ONEDNN=OFF"])
        if done.returncode:
            raise Unfit("cmake: " + done.stderr.strip())
    jobs = run(["sh", ".ci/jobs.sh"]).stdout.strip()
    done = run(["cmake", "--build", "--preset", "release", "--parallel", jobs, "--target", "test_verdicts"])
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "error:" in line]
        raise Unfit("does not build: " + (errors or done.stdout.splitlines()[-1:])[0])


@dataclass
class Red:
    measured: list   # cases whose assessment is wrong
    predicted: list  # cases whose assessment without samples is wrong

    def __bool__(self):
        return bool(self.measured or self.predicted)


def red_cases(case="*", statistics=None):
    kept = {"KVCAL_VERDICT_STATISTICS": str(statistics)} if statistics else {}
    done = run([TEST, "--gtest_brief=1", f"--gtest_filter=*IsTrue/{case}"], **kept)
    failed = {kind: re.findall(rf"^\[  FAILED  \] \w+/Verdicts\.{kind}IsTrue/(\w+), where .* \(\d+ ms\)$", done.stdout,
                               re.M) for kind in ("Assessment", "Prediction")}
    if done.returncode not in (0, 1) or "tests from" not in done.stdout:
        raise Unfit(f"test_verdicts ended with {done.returncode}")
    return Red(failed["Assessment"], failed["Prediction"])


def edited(part, whole):
    """-> file -> text with the part's changes; each text to replace is in its file exactly once"""
    texts = {}
    for change in part["change"]:
        name = change["file"]
        text = texts.get(name) or whole[name]
        if text.count(change["from"]) != 1:
            raise Unfit(f"{name} has {text.count(change['from'])} times: {change['from'].strip()}")
        texts[name] = text.replace(change["from"], change["to"])
    return texts


def without(part, whole):
    """Takes the part out of the copy, and puts back what was taken out before."""
    texts = edited(part, whole)
    for name, text in {**whole, **texts}.items():
        if (COPY / name).read_text() != text:
            (COPY / name).write_text(text)
    build()
    solves_only = all(change["file"].startswith("lib/solve/") for change in part["change"])
    kept = STATISTICS if solves_only else None
    return (red_cases(part["case"], kept) if "case" in part else None) or red_cases(statistics=kept)


def some(cases):
    return "-" if not cases else ", ".join(cases[:3]) + (f" and {len(cases) - 3} more" if len(cases) > 3 else "")


TITLE = """# What holds each part of the rule

Written by `make test-verdict-parts OPTIONS='--write FILE'`: for each part that is taken out (`parts.toml`), cases whose answer is then
wrong, from samples and from histograms alone.

| part | samples | histograms |
|---|---|---|
"""


def row(part, red):
    return f"| {part['name']} | {some(red.measured)} | {some(red.predicted)} |\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=[""], help="parts whose name has one of these texts")
    parser.add_argument("--write", type=Path, help="write the table into this file too")
    options = parser.parse_args()
    parts = tomllib.loads((HERE / "parts.toml").read_text())["part"]
    chosen = [part for part in parts if any(text in part["name"] for text in options.only)]
    if not chosen:
        sys.exit(f"no part has one of these texts in its name: {', '.join(options.only)}")
    synchronize()
    build()
    shutil.rmtree(STATISTICS, ignore_errors=True)
    STATISTICS.mkdir()
    before = red_cases(statistics=STATISTICS)
    if before:
        sys.exit(f"red with all parts there: {some(before.measured)}; without samples: {some(before.predicted)}")
    whole = {c["file"]: (COPY / c["file"]).read_text() for part in parts for c in part["change"]}
    table, uncaught = TITLE, []
    for part in chosen:
        try:
            red = without(part, whole)
            verdict = row(part, red)
            if not red:
                uncaught.append(part["name"])
        except Unfit as reason:
            verdict = f"| {part['name']} | {reason} |\n"
            uncaught.append(part["name"])
        table += verdict
        print(verdict, end="", flush=True)
    synchronize()
    if options.write:
        options.write.write_text(table)
    if uncaught:
        sys.exit("caught by no case: " + "; ".join(uncaught))


if __name__ == "__main__":
    main()
