"""Writes tests/verdicts/cases.jsonl and truth.jsonl: the engineered cases and what is true of them."""
import json

import numpy as np

from case_layer import build, fingerprint, make_layer
from cases import cases
from checkpoint import FOLDER
from judge import judge


def rounded(x, digits=4):
    if isinstance(x, dict):
        return {k: v if k in ("scale", "absmax") and not isinstance(v, dict) else rounded(v) for k, v in x.items()}
    return float(f"{x:.{digits}g}") if isinstance(x, float) else x


def truth_of(case):
    tables = build(case)
    with np.errstate(under="ignore"):
        runs = judge(case, make_layer(case, tables))
    return {"name": case["name"], "sha256": fingerprint(tables), "runs": [rounded(run) for run in runs]}


def write_lines(path, objects):
    path.write_text("".join(json.dumps(o, separators=(",", ":")) + "\n" for o in objects))


def main():
    all_cases = cases()
    write_lines(FOLDER / "cases.jsonl", all_cases)
    write_lines(FOLDER / "truth.jsonl", [truth_of(case) for case in all_cases])


if __name__ == "__main__":
    main()
