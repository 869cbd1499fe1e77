"""Leaves out each __syncthreads(), __syncwarp() and wait for asynchronous copies or products of kernels/ once, and says what notices.

    mutate_barriers.py PROGRAM [--only TEXT ...] [--update]

PROGRAM is test_parity_races: one run of it, which must be green, tells which case reaches which barrier; then some cases run
without it. Nothing is built: the emulator does not wait at that place (KVCAL_EMULATOR_WITHOUT). Fails for a barrier that nothing
misses and harmless_barriers.toml does not explain, for an explanation of one that is missed, and for a barrier that no case
reaches. --update writes barriers.md.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "kernels"
STATEMENT = re.compile(r"(__syncthreads|__syncwarp|wait_copies<.*>|wait_products<.*>)\(")
FUNCTION = re.compile(r"__(?:device|global)__\s(?:__launch_bounds__\([^)]*\)|[\w<>:&*,\s])*?\b(?!__launch_bounds__)(\w+)\(")
INSTRUCTIONS = ("mma.cuh", "warpgroup.cuh")  # around the emulator's
FIRST_CASES = 8  # of those that reach a barrier, the quickest; all others only if these notice nothing


@dataclass
class Barrier:
    file: str
    line: int
    place: str  # "norm.cu layer_norm_kernel 2": the second of the function
    statement: str
    offsets: set = field(default_factory=set)  # in the program: one for each instance of a template
    cases: dict = field(default_factory=dict)  # that reach it -> seconds


@dataclass
class Case:
    name: str
    seconds: float
    offsets: set


def barriers_of(path):
    file, text = str(path.relative_to(KERNELS)), re.sub(r"//.*", "", path.read_text())
    counts = {}
    for statement in STATEMENT.finditer(text):
        function = [f[1] for f in FUNCTION.finditer(text[:statement.start()])][-1]
        counts[function] = counts.get(function, 0) + 1
        line = text.count("\n", 0, statement.start()) + 1
        yield Barrier(file, line, f"{file} {function} {counts[function]}", statement[1])


def all_barriers():
    sources = sorted([*KERNELS.glob("*.cu"), *KERNELS.glob("device/*.cuh")])
    return [b for path in sources if path.name not in INSTRUCTIONS for b in barriers_of(path)]


def start(program, jobs, part, report):
    env = {**os.environ, "GTEST_TOTAL_SHARDS": str(jobs), "GTEST_SHARD_INDEX": str(part)}
    return subprocess.Popen([program, "--gtest_brief=1", f"--gtest_output=json:{report}"], env=env,
                            stdout=subprocess.PIPE, text=True)


def cases_of(program, jobs):
    """-> cases of a run without a fault"""
    with tempfile.TemporaryDirectory() as folder:
        reports = [Path(folder) / f"{part}.json" for part in range(jobs)]
        runs = [start(program, jobs, part, report) for part, report in enumerate(reports)]
        outputs = [run.communicate()[0] for run in runs]
        if any(run.returncode for run in runs):
            sys.exit("red with all barriers there:\n" + "\n".join(outputs))
        suites = [suite for report in reports for suite in json.loads(report.read_text())["testsuites"]]
    return [Case(f"{suite['name']}.{case['name']}", float(case["time"][:-1]),
                 {int(o, 16) for o in case.get("barriers", "").split(",") if o})
            for suite in suites for case in suite["testsuite"]]


def places_of(program, offsets):
    """-> offset -> (file, line) of the statement; within what was inlined, not where it was inlined to"""
    listed = sorted(offsets)
    # The call comes before the address that it returns to.
    done = subprocess.run(["addr2line", "-a", "-i", "-e", program, *[hex(o - 1) for o in listed]], check=True,
                          capture_output=True, text=True)
    places, index = {}, -1
    for line in done.stdout.splitlines():
        if line.startswith("0x"):
            index += 1
        elif (found := re.search(r"/kernels/(.*):(\d+)", line)) and not found[1].endswith(INSTRUCTIONS):
            places.setdefault(listed[index], (found[1], int(found[2])))
    return places


def reach(barriers, cases, places):
    at = {(b.file, b.line): b for b in barriers}
    for case in cases:
        for offset in case.offsets:
            place = places.get(offset)
            if place not in at:
                sys.exit(f"a barrier at {place} that is not found in the sources: is {sys.argv[1]} built from them?")
            at[place].offsets.add(offset)
            at[place].cases[case.name] = case.seconds


@dataclass
class Noticed:
    races: bool = False
    errors: bool = False  # of the emulator: copies that nobody waited for, deadlocks
    values: bool = False

    def __str__(self):
        names = [name for name in ("races", "errors", "values") if getattr(self, name)]
        return ", ".join(names) or "nothing"


def without(program, barrier, cases):
    env = {**os.environ, "KVCAL_EMULATOR_WITHOUT": ",".join(f"{o:x}" for o in barrier.offsets)}
    done = subprocess.run([program, "--gtest_brief=1", "--gtest_filter=" + ":".join(cases)], env=env,
                          stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        return Noticed(errors=True)
    failures = re.findall(r"^(\S+):\d+: Failure$", done.stdout, re.M)
    return Noticed(races="race check:" in done.stdout, errors="C++ exception" in done.stdout,
                   values=any(not f.endswith("race_listener.cpp") for f in failures))


def judge(program, barrier):
    by_time = sorted(barrier.cases, key=barrier.cases.get)
    noticed, more = without(program, barrier, by_time[:FIRST_CASES]), by_time[FIRST_CASES:]
    return without(program, barrier, more) if str(noticed) == "nothing" and more else noticed


TITLE = """# What notices that a barrier is missing

Written by `make test-race-mutants OPTIONS=--update`: each barrier of `kernels/`, by function and number in it, and what the cases that
reach it notice when threads do not wait there. races: the race check; errors: of the emulator; values: results that differ, with
the threads ascending.

| barrier | | noticed by |
|---|---|---|
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--only", nargs="+", default=[""], help="barriers in whose place one of these texts is")
    parser.add_argument("--update", action="store_true", help="write barriers.md")
    options = parser.parse_args()
    program, jobs = str(options.program.resolve()), os.cpu_count()
    harmless = {b["place"]: b["why"] for b in tomllib.loads((HERE / "harmless_barriers.toml").read_text())["barrier"]}
    barriers = all_barriers()
    cases = cases_of(program, jobs)
    reach(barriers, cases, places_of(program, {o for case in cases for o in case.offsets}))
    chosen = [b for b in barriers if any(text in b.place for text in options.only)]
    if not chosen:
        sys.exit(f"no barrier is in such a place: {', '.join(options.only)}")
    table, wrong = TITLE, [f"{place} is no barrier" for place in harmless.keys() - {b.place for b in barriers}]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for barrier, noticed in zip(chosen, pool.map(lambda b: judge(program, b) if b.cases else None, chosen)):
            why = harmless.get(barrier.place)
            verdict = "no case reaches it" if noticed is None else str(noticed)
            if (verdict in ("nothing", "no case reaches it")) == (why is None):
                wrong.append(f"{barrier.place}: {verdict}" + (", but it is listed as harmless" if why else ""))
            row = f"| {barrier.place} | `{barrier.statement}` | {verdict + (': ' + why if why else '')} |\n"
            table += row
            print(row, end="", flush=True)
    if options.update:
        (HERE / "barriers.md").write_text(table)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
