#!/usr/bin/env python3
"""Folds every golden and the demo models by every balance, and judges the result without kvcal: files in numpy, what is
computed by the reference framework.

    make test-fold-reference
    python tests/reference/fold/differential.py KVCAL [CASE...] [--balance NAME] [--keep FOLDER]

Files: every tensor is the original's times the powers of kvcal-fold.json, every other byte is the original's.
Logits: the same bits in bf16 and f32, with the framework's eager attention, on random ids. Caches: what attention
receives is the original's times 2^e of the record's sites. Adapters: adapters.py. Checkpoints that the framework does
not read as they are, quantized ones first of all, are judged by copies that plain_copy.py makes of them in numpy. Ends
with 1 when anything differs.
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import transformers

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import adapters  # noqa: E402
import framework  # noqa: E402
import plain_copy  # noqa: E402
import shards  # noqa: E402

ARCH = Path(__file__).resolve().parents[2] / "arch"
DEMO = Path(__file__).resolve().parents[3] / "datasets/demo"
BALANCES = ("tensor", "head", "channel")
LENGTHS = (41, 8)


class Refused(Exception):
    pass


def run(*command) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise Refused((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
    return done.stdout


def random_ids(golden: dict, config: dict) -> list[list[int]]:
    """Below the ids that stand for pictures, which goldens leave out, and those that lack a row of a smaller table."""
    rows = config.get("text_config", config).get("vocab_size_per_layer_input", math.inf)
    most, dice = min(rows - 1, max(max(ids) for ids in golden["sequences"])), random.Random(golden["case"])
    return [[dice.randint(3, most) for _ in range(length)] for length in LENGTHS]


def measure(kvcal: str, case: Path, golden: dict, scratch: Path) -> Path:
    prompts, statistics = scratch / "prompts.jsonl", scratch / "run.kvstats"
    prompts.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in golden["sequences"]))
    run(kvcal, "calibrate", case, "--prompts", prompts, "--max-length", 0, "--stats", statistics, "-o",
        scratch / "scales.json", "--force", "-q")
    return statistics


class Judge:
    """One golden: the original's logits and caches, to which those of its folds are compared."""

    def __init__(self, case: Path, golden: dict, scratch: Path):
        self.case, self.golden, self.scratch = case, golden, scratch
        self.sequences = random_ids(golden, json.loads((case / "config.json").read_text()))
        self.plain = "quantized" in golden
        try:
            self.logits, self.caches = self.computed(case)
        except framework.NotRead:
            self.plain = True
            self.logits, self.caches = self.computed(case)

    def computed(self, folder: Path):
        if self.plain:
            folder = plain_copy.write_plain(folder, Path(tempfile.mkdtemp(dir=self.scratch)) / "plain")
        architecture = self.golden["architecture"]
        logits = {precision: framework.logits(framework.load(architecture, folder, precision), self.sequences)
                  for precision in framework.PRECISIONS}
        caches = {precision: framework.cached(architecture, folder, precision, self.sequences[0])
                  for precision in framework.PRECISIONS}
        return logits, caches

    def differences(self, folded: Path) -> list[str]:
        record = json.loads((folded / "kvcal-fold.json").read_text())
        found = shards.compare_folders(self.case, folded, record)
        logits, caches = self.computed(folded)
        for precision in framework.PRECISIONS:
            same = all(map(torch.equal, self.logits[precision], logits[precision]))
            found += [] if same else [f"logits in {precision} differ"]
            compared = framework.compare_caches(self.caches[precision], caches[precision], record)
            found += [f"{line}, in {precision}" for line in compared]
        return found


def golden_of(case: Path) -> dict:
    if case.parent != DEMO:
        return json.loads((case / "golden.json").read_text())
    asked = json.loads((ARCH / "golden/demo_generate.json").read_text())["prompts"]
    return dict(case=case.name, architecture="Qwen3_5ForCausalLM", sequences=[prompt["input_ids"] for prompt in asked])


def judge_case(kvcal: str, case: Path, balances: list[str], scratch: Path) -> tuple[str, list[str]]:
    """-> (what was folded, what differs)"""
    golden = golden_of(case)
    scratch.mkdir(parents=True)
    statistics = measure(kvcal, case, golden, scratch)
    judge, said, found = Judge(case, golden, scratch), [], []
    for balance in balances:
        folded = scratch / balance
        run(kvcal, "fold", case, "--stats", statistics, "-o", folded, "--balance", balance, "--force")
        if not folded.exists():
            said.append(f"{balance}: nothing")
            continue
        record = json.loads((folded / "kvcal-fold.json").read_text())
        n = sum(any(site["exponents"]) for site in record["sites"])
        said.append(f"{balance}: {n}/{len(record['sites'])} sites, {len(record['tensors'])} tensors")
        found += [f"{balance}: {line}" for line in judge.differences(folded)]
    if case.name in adapters.CASES:
        said.append("adapters")
        found += judge_adapters(kvcal, judge, statistics)
    return "; ".join(said) + ("; by a plain copy" if judge.plain else ""), found


def judge_adapters(kvcal: str, judge: Judge, statistics: Path) -> list[str]:
    def fold(adapter: Path, out: Path) -> None:
        run(kvcal, "fold", judge.case, "--stats", statistics, "-o", out, "--balance", "channel", "--force", "--adapter",
            adapter)

    return adapters.Adapters(judge.case, judge.golden["architecture"], judge.sequences, judge.scratch, fold,
                             Refused).differences()


def cases(names: list[str]) -> list[Path]:
    goldens = [golden for kind in ("golden", "activation") for golden in sorted(ARCH.glob(f"{kind}/*/golden.json"))]
    folders = [golden.parent for golden in goldens] + [DEMO / "natural", DEMO / "stressed"]
    unknown = set(names) - {folder.name for folder in folders}
    if unknown:
        sys.exit(f"unknown cases {sorted(unknown)}")
    return [folder for folder in folders if not names or folder.name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvcal")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="goldens (default: all)")
    parser.add_argument("--balance", choices=BALANCES)
    parser.add_argument("--keep", type=Path, help="write here, and leave it")
    options = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore", module="peft")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        scratch = options.keep or Path(made)
        for case in cases(options.cases):
            said, found = judge_case(options.kvcal, case, [options.balance] if options.balance else BALANCES,
                                     scratch / case.parent.name / case.name)
            print(f"{case.name:20s} {said}", *(f"    {line}" for line in found), sep="\n" if found else "", flush=True)
            failed += bool(found)
    print(f"{failed} of {len(cases(options.cases))} goldens differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
