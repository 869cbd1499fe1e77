#!/usr/bin/env python3
"""quick.py [BASE]: builds and runs what takes seconds of the tests that a change since the commit BASE can turn red.

BASE is where the branch left its upstream, unless it is given; without an upstream it is the last commit, so that what is not
committed yet counts. Which folders a change reaches follows from the table of includes in docs/development.md.
"""
import re
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
BUILD = TREE / "build" / "release"

# (folder of lib or apps, label in ctest, programs to build, folder of tests/)
GROUPS = [
    ("ops", "lib/ops", ["test_ops", "test_parity"], "parity"),
    ("prefill", "arch", ["test_arch"], "arch"),
    ("solve", "verdicts", ["test_verdicts"], "verdicts"),
    ("evaluate", "evaluate", ["test_evaluation"], "evaluate"),
    ("fold", "fold", ["test_folding"], "fold"),
    ("apps", "cli", ["kvcal", "kvcal_emulated", "test_cli", "test_frame", "report_pages"], "cli"),
]
ALWAYS = ("rules", ["kvcal", "test_rules", "test_documents", "test_document_commands", "test_validate"])


def output(*command):
    return subprocess.run(command, cwd=TREE, check=True, capture_output=True, text=True).stdout


def changed_files(base):
    if not base:
        upstream = subprocess.run(["git", "merge-base", "HEAD", "@{upstream}"], cwd=TREE, capture_output=True, text=True)
        base = upstream.stdout.strip() or "HEAD"
    tracked = output("git", "diff", "--name-only", base).splitlines()
    return tracked + output("git", "ls-files", "--others", "--exclude-standard").splitlines()


def includes():
    """For each folder of lib, kernels and apps the folders that it may include."""
    text = (TREE / "docs" / "development.md").read_text()
    table = text[text.index("<!-- table of includes -->"):text.index("<!-- end of table of includes -->")]
    may = {}
    for name, listed in re.findall(r"^\| `(?:lib/)?([\w/]+)`[^|]*\| ([^|]*) \|$", table, re.M):
        may[name] = {entry.strip("` ").removesuffix(".h") for entry in listed.split(",")}
    folders = set(may)
    for name, listed in may.items():
        # 'stats/x.h' is of stats; apps may include anything.
        found = {entry if entry in folders else entry.rsplit("/", 1)[0] for entry in listed}
        may[name] = folders - {name} if any(entry.startswith("anything") for entry in listed) else found & folders
    return may


def reached(changed, may):
    """Folders that are changed, or include such a folder, however indirectly."""
    found = set(changed)
    while True:
        more = {name for name, listed in may.items() if listed & found} - found
        if not more:
            return found
        found |= more


def folder_of(path, may):
    parts = path.removeprefix("lib/").split("/")
    for n in range(len(parts) - 1, 0, -1):
        if "/".join(parts[:n]) in may:
            return "/".join(parts[:n])
    return None


def chosen(files):
    """Labels and programs of the tests that the files can turn red."""
    may = includes()
    everything = False
    changed, tests = set(), set()
    for path in files:
        if path.startswith("tests/"):
            tests.add(path.split("/")[1] if not path.startswith("tests/unit/") else path.split("/")[-1].split("_")[0])
        elif path.startswith(("lib/", "apps/", "kernels/")) and folder_of(path, may):
            folder = folder_of(path, may)
            changed |= {folder, folder.split("/")[0]}
        elif not path.endswith(".md"):
            everything = True  # options of the build, data sets, schemas
    known = {group for *_, group in GROUPS} | {p.stem for p in (TREE / "lib").iterdir()} | {"rules", "documents"}
    everything = everything or not tests <= known
    folders = reached(changed, may)
    labels, programs = [ALWAYS[0]], list(ALWAYS[1])
    for folder, label, of_group, group in GROUPS:
        if everything or folder in folders or group in tests:
            labels.append(label)
            programs += of_group
    units = {path.name.split("_")[0] for path in (TREE / "tests" / "unit").glob("*_test.cpp")}
    for folder in sorted(units):
        if (TREE / "lib" / folder).is_dir() and (everything or folder in folders or folder in tests):
            labels.append(f"lib/{folder}")
            programs.append(f"test_{folder}")
    return sorted(set(labels)), sorted(set(programs))


def main():
    files = changed_files(sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] else None)
    if not files:
        print("quick: nothing changed; 'make test-quick BASE=COMMIT' compares with an earlier commit")
        return 0
    labels, programs = chosen(files)
    print(f"quick: {len(files)} files changed; tests: {' '.join(labels)}", flush=True)
    if any(path.startswith("kernels/") for path in files):
        print("quick: kernels run in the emulator, which takes minutes: make test", flush=True)
    jobs = output("sh", ".ci/jobs.sh").strip()
    subprocess.run(["cmake", "--build", BUILD, "--parallel", jobs, "--target", *programs], cwd=TREE, check=True)
    return subprocess.run(["ctest", "--test-dir", BUILD, "-L", f"^({'|'.join(labels)})$", "-LE", "nightly", "-E", "^emulated",
                           "--output-on-failure", "--no-label-summary", "--no-tests=error", "--parallel", jobs], cwd=TREE).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"quick: {' '.join(map(str, error.cmd[:6]))} failed\n{error.stderr or ''}")
