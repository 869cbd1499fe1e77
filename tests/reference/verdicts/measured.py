"""What kvcal says of a layer, beside what rounding that layer's cache alone does to the model's predictions.

    measured.py KVCAL [CASE...]

Each model runs in float32: the demo models on datasets/demo/prompts.jsonl, checkpoints of tests/arch/golden (all that
have a cache, or those named) on their golden's sequences. Its layers are judged and measured at scale 1.0, at the scales
of `calibrate`, and at scales up to 2^19 times too large, where values become subnormal and zero. A layer's verdict is the
worse of its keys' and values'. KL is that of the next token's distribution, in nats, the mean over all tokens. How much a
model's predictions hang on a layer differs by orders of magnitude, so each KL is also compared with that at the largest
scale, at which nearly all of what the layer caches is zero: what losing the layer would do.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GOLDENS, DEMO = ROOT / "tests/arch/golden", ROOT / "datasets/demo"
WORDS = ("fine", "keep16")
# Factors between range and largest number: that of calibrate, and those that make scales too large. At the last one hardly
# anything is left of the cache.
HEADROOMS = [2, 2 ** 13, 2 ** 15, 2 ** 17, 2 ** 20]
LOST = f"x{HEADROOMS[-1] // 2}"
MOST_FINE, LEAST_KEEP16 = 0.1, 0.02  # what disagreements are measured against


class Refused(Exception):
    pass


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip().splitlines()[-1])


def verdict(layer, at):
    """-> (fp8, severity) of the worse of keys and values"""
    sites = [layer[site]["assessment"] for site in ("key", "value", "latent") if site in layer]
    judged = [site[at] for site in sites if at in site]
    if not judged:
        return None
    return max((WORDS.index(j["fp8"]), j.get("severity", 0)) for j in judged)


def scale_matters(layer):
    said = {layer[site]["assessment"]["scale"] for site in ("key", "value", "latent") if site in layer}
    return "needed" if "needed" in said else "any"


def measured(kvcal, model, prompts, folder, *scales):
    """-> mean KL by layer, each alone"""
    run(kvcal, "evaluate", model, "--prompts", prompts, "--per-layer", "--precision", "f32", "-q", "--force", "--max-length", 0,
        "-o", folder / "evaluation.json", *(("--scales", *scales) if scales else ()))
    found = json.loads((folder / "evaluation.json").read_text())
    return {layer["index"]: layer["kl"] for layer in found["layers"]}


def rows_of(kvcal, name, model, prompts, folder):
    """Yields (model, layer, scale, scale?, fp8, severity, KL)."""
    run(kvcal, "calibrate", model, "--prompts", prompts, "--precision", "f32", "-q", "--force", "--max-length", 0, "--passes", 1,
        "--warmup-passes", 0, "--stats", folder / "run.kvstats", "-o", folder / "2.json")
    for headroom in HEADROOMS:
        file = folder / f"{headroom}.json"
        run(kvcal, "solve", folder / "run.kvstats", "--headroom", headroom, "-q", "--force", "-o", file)
        kl = measured(kvcal, model, prompts, folder, file)
        at_one = measured(kvcal, model, prompts, folder) if headroom == 2 else None
        for layer in json.loads(file.read_text())["layers"]:
            index = layer["index"]
            if index not in kl:
                continue
            for at, scale, found in (("at_one", "1.0", at_one), ("at_scale", f"x{headroom // 2}", kl)):
                said = verdict(layer, at)
                if found and said and found[index] is not None:
                    yield name, index, scale, scale_matters(layer), WORDS[said[0]], said[1], found[index]


def write_sequences(golden, file):
    sequences = json.loads(golden.read_text())["sequences"]
    file.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in sequences if len(ids) > 1))


def all_rows(kvcal, cases):
    for name in ("natural", "stressed"):
        with tempfile.TemporaryDirectory() as scratch:
            yield from rows_of(kvcal, name, DEMO / name, DEMO / "prompts.jsonl", Path(scratch))
    for golden in sorted(GOLDENS.glob("*/golden.json")):
        name = golden.parent.name
        if cases and name not in cases:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            write_sequences(golden, folder / "prompts.jsonl")
            try:
                yield from rows_of(kvcal, name, golden.parent, folder / "prompts.jsonl", folder)
            except Refused as refusal:
                print(f"{name}: left out: {refusal}", file=sys.stderr)


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    for rank, i in enumerate(order):
        out[i] = rank
    return out


def rank_correlation(a, b):
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    spread = sum((x - mean) ** 2 for x in a)
    return sum((x - mean) * (y - mean) for x, y in zip(a, b)) / spread


def print_demo(rows):
    print("| model | layer | scale | scale? | fp8 | severity | measured KL |\n|---|---|---|---|---|---|---|")
    for name, layer, scale, matters, fp8, severity, kl in rows:
        if name in ("natural", "stressed") and scale in ("1.0", "x1"):
            print(f"| {name} | {layer} | {'calibrated' if scale == 'x1' else scale} | {matters} | {fp8} | {severity:.2g} | {kl:.2g} |")


def shares_of_loss(rows):
    """-> (row, its KL / KL of losing the layer) for all other rows"""
    lost = {row[:2]: row[-1] for row in rows if row[2] == LOST}
    return [(row, row[-1] / lost[row[:2]]) for row in rows if row[2] != LOST and lost.get(row[:2])]


def percentiles(values):
    ascending = sorted(values)
    return " | ".join(f"{ascending[round(share * (len(ascending) - 1))]:.2g}" for share in (0, .1, .5, .9, .99, 1))


def print_by_verdict(shares):
    print("\n| fp8 | layers and scales | KL / KL of losing the layer: smallest | 10 % | median | 90 % | 99 % | largest |\n"
          "|---|---|---|---|---|---|---|---|")
    for word in WORDS:
        found = [share for row, share in shares if row[4] == word]
        print(f"| `{word}` | {len(found)} | {percentiles(found)} |")
    severities, found = [row[5] for row, _ in shares], [share for _, share in shares]
    print(f"rank correlation of severity and share: {rank_correlation(severities, found):.2f}")


def print_scale_matters(shares):
    """By how much KL at 1.0 exceeds that at the scales of calibrate, as a share of losing the layer."""
    at = {row[:3]: (row, share) for row, share in shares}
    print("\n| scale? | layers | (KL at 1.0 - KL calibrated) / KL of losing the layer: smallest | 10 % | median | 90 % | 99 % | "
          "largest |\n|---|---|---|---|---|---|---|---|")
    for word in ("any", "needed"):
        found = [share - at[*key[:2], "x1"][1] for key, (row, share) in at.items() if key[2] == "1.0" and row[3] == word]
        if found:
            print(f"| `{word}` | {len(found)} | {percentiles(found)} |")


def print_disagreements(shares):
    print(f"\n`fine` although the share is above {MOST_FINE}, or `keep16` although it is below {LEAST_KEEP16}:")
    for (name, layer, scale, _, fp8, severity, kl), share in shares:
        if (fp8 == "fine" and share > MOST_FINE) or (fp8 == "keep16" and share < LEAST_KEEP16):
            print(f"  {name}, layer {layer}, scale {scale}: {fp8} (severity {severity:.2g}), KL {kl:.2g}, share {share:.2g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvcal", type=Path)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    rows = list(all_rows(options.kvcal.resolve(), options.cases))
    print_demo(rows)
    shares = shares_of_loss(rows)
    print_by_verdict(shares)
    print_scale_matters(shares)
    print_disagreements(shares)


if __name__ == "__main__":
    main()
