"""What kvcal says of the demo models' answers at right and wrong scales, beside what the reference says.

    accuracy.py KVCAL [--n 100]

The questions and the scales are those of evaluate.py, whose ranges and shares of exact answers are committed in accuracy/
(`evaluate.py MODEL --json FILE`). Prints the tables of datasets/demo/README.md and every share that differs;
exit code 1 when one differs by more than two of a hundred questions.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import chats
from scales import scale_table

HERE = Path(__file__).resolve().parent
MODELS = HERE.parents[2] / "datasets/demo"
SEED = 7 * 10**6  # of evaluate.py
MOST = 0.02


def write_records(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def said(turn: chats.Turn) -> list[dict]:
    return [{"role": role, "content": content} for role, content in zip(("user", "assistant"), turn)]


def write_prompts(folder: Path, n: int) -> dict[str, int]:
    """Questions, which expect the exact answer, and the same with their answers. -> questions of each skill"""
    tests = chats.held_out_tests(n, SEED)
    numbered = [(f"{skill} {i:03d}", skill, turn) for skill, turns in tests.items() for i, turn in enumerate(turns)]
    write_records(folder / "chats.jsonl", [{"id": name, "messages": said(turn)} for name, _, turn in numbered])
    write_records(folder / "questions.jsonl",
                  [{"id": name, "messages": said(turn)[:1], "tags": [skill],
                    "expect": {"regex": r"\A" + re.sub(r"([.+*?])", r"\\\1", turn[1]) + r"\z"}}
                   for name, skill, turn in numbered])
    return {skill: len(turns) for skill, turns in tests.items()}


def run(*command) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())


def with_scales(artifact: dict, scales: dict) -> str:
    out = json.loads(json.dumps(artifact))
    for layer in out["layers"]:
        for site, scale in zip(("key", "value"), scales[layer["index"]]):
            layer[site]["scale"], layer[site]["inverse_scale"] = scale, 1 / scale
    return json.dumps(out)


def accuracy(kvcal: Path, model: Path, reference: dict, folder: Path) -> dict[str, dict[str, float]]:
    """Row of the reference -> skill -> share of exact answers; also the row's mean KL, as "KL"."""
    common = ["--precision", "f32", "--quiet", "--force", "--max-length", 0]
    run(kvcal, "calibrate", model, "--prompts", folder / "chats.jsonl", "--out", folder / "measured.json", *common)
    artifact = json.loads((folder / "measured.json").read_text())
    absmax = {int(layer): ranges for layer, ranges in reference["absmax"].items()}
    rows = [(label, scales) for label, scales in scale_table(absmax, brief=False)
            if label in reference["exact"] and label != "scale 1.0"]
    for i, (_, scales) in enumerate(rows):
        (folder / f"{i}.json").write_text(with_scales(artifact, scales))
    run(kvcal, "evaluate", model, "--prompts", folder / "questions.jsonl", "--generate", "--max-new-tokens", 64,
        "--out", folder / "evaluation.json", "--scales", *(folder / f"{i}.json" for i in range(len(rows))), *common)
    labels = {"reference": "unquantised f32", "scale_1.0": "scale 1.0", "file": rows[0][0]}
    labels |= {f"file_{i + 1}": label for i, (label, _) in enumerate(rows) if i > 0}
    variants = json.loads((folder / "evaluation.json").read_text())["variants"]
    return {labels[v["name"]]: {"KL": v["kl"]["mean"]} | {tag: part["correct"] for tag, part in v["by_tag"].items()}
            for v in variants if v["name"] in labels}


def differences(found: dict, reference: dict):
    for label, shares in reference.items():
        for skill, share in shares.items():
            if abs(found[label][skill] - share) > 1e-3:
                yield label, skill, found[label][skill], share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvcal", type=Path)
    parser.add_argument("--n", type=int, default=100, help="questions of a skill; the reference has 100")
    options = parser.parse_args()
    bad = False
    for name in ("natural", "stressed"):
        reference = json.loads((HERE / "accuracy" / f"{name}.json").read_text())
        with tempfile.TemporaryDirectory() as scratch:
            skills = write_prompts(Path(scratch), options.n)
            found = accuracy(options.kvcal.resolve(), MODELS / name, reference, Path(scratch))
        print(f"\n{name}\n\n| KV cache |", " | ".join(skills), "| KL |\n|---|" + "---|" * (len(skills) + 1))
        for label, row in found.items():
            print(f"| {label} |", " | ".join(f"{100 * row[skill]:.3g}" for skill in skills), f"| {row['KL']:.2g} |")
        if options.n != 100:
            continue
        n_shares = sum(map(len, reference["exact"].values()))
        different = list(differences(found, reference["exact"]))
        print(f"\n{n_shares - len(different)} of {n_shares} shares are the reference's")
        for label, skill, ours, theirs in different:
            bad = bad or abs(ours - theirs) > MOST + 1e-3
            print(f"  {label}, {skill}: {100 * ours:.1f} %, the reference {100 * theirs:.1f} %")
    sys.exit(bad)


if __name__ == "__main__":
    main()
