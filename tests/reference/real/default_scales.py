"""Scales of absmax and of powers of two against 1.0, on a trained model, over calibration sets drawn at random.

    default_scales.py KVCAL FOLDER [--prompts FILE] [--out TABLE.txt] [--work FOLDER]

Two sets of prompts are held back and evaluated, chats and others; calibration sets are drawn from the rest. Of each scale file:
its mean KL, how many times that at 1.0 this is, and the standard error of that, from the same prompts' KL at both. Scale files
that are alike are evaluated once. Exits with 1 where powers of two are worse than 1.0 by more than 3 %.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

PROMPTS = Path(__file__).resolve().parents[3] / "datasets" / "default.jsonl"
POLICIES = ("absmax", "pow2")
SHARES = (1 / 3, 1 / 3, 1 / 8, 2 / 3)  # of the prompts that are not held back: sizes of calibration sets in turn
MOST = 1.03


def is_chat(record):
    return "tools" not in record and all(isinstance(m.get("content"), str) for m in record.get("messages") or [{}])


def drawn(records, options):
    """-> prompts to evaluate by name of their set, calibration sets"""
    r = Random(options.seed)
    rest = r.sample(records, len(records))
    held = {"chats": [x for x in rest if is_chat(x)][:options.held]}
    rest = [x for x in rest if x not in held["chats"]]
    held["others"], rest = rest[:options.held], rest[options.held:]
    return held, [r.sample(rest, round(len(rest) * SHARES[i % len(SHARES)])) for i in range(options.sets)]


def write_prompts(path, records):
    """A tag of its own for each prompt: the evaluation has figures by tag."""
    path.write_text("".join(json.dumps({**x, "tags": ["prompt " + x["id"]]}) + "\n" for x in records))
    return path


def calibrated(options, work, number, records):
    """-> scale file of each policy, from one measurement"""
    prompts, stats = write_prompts(work / f"{number}.jsonl", records), work / f"{number}.kvstats"
    subprocess.run([options.kvcal, "calibrate", options.folder, "--prompts", prompts, "--passes", "1", "--stats", stats,
                    "--quiet", "--force", "--out", work / f"{number}.json"], check=True)
    files = {policy: work / f"{number}-{policy}.json" for policy in POLICIES}
    for policy, path in files.items():
        subprocess.run([options.kvcal, "solve", stats, "--policy", policy, "--quiet", "--force", "--out", path], check=True)
    stats.unlink()
    return files


def scales(path):
    return tuple(layer[site]["scale"] for layer in json.loads(path.read_text())["layers"]
                 for site in ("key", "value", "latent") if site in layer)


def evaluated(options, work, name, records, files):
    """-> by scales: KL and tokens of each prompt"""
    prompts, out = write_prompts(work / f"{name}.jsonl", records), work / f"{name}-evaluation.json"
    subprocess.run([options.kvcal, "evaluate", options.folder, "--prompts", prompts, "--max-length", str(options.tokens),
                    "--precision", "f32", "--quiet", "--force", "--out", out, "--scales", *files.values()], check=True)
    by_name = {v["name"]: v["by_tag"] for v in json.loads(out.read_text())["variants"]}
    names = ["scale_1.0", "file", *(f"file_{i + 2}" for i in range(len(files)))]
    at_one = (1,) * len(next(iter(files)))
    return {key: [(x["kl"]["mean"], x["n_tokens"]) for _, x in sorted(by_name[name].items())]
            for key, name in zip([at_one, *files], names)}


def mean(rows):
    return sum(kl * n for kl, n in rows) / sum(n for _, n in rows)


def against(rows, at_one):
    """-> KL in that at 1.0, and its standard error, of prompts paired and drawn"""
    ratio = mean(rows) / mean(at_one)
    apart = [(a - ratio * b) * n for (a, n), (b, _) in zip(rows, at_one, strict=True)]
    variance = sum(x * x for x in apart) * len(apart) / (len(apart) - 1)
    return ratio, variance ** .5 / sum(kl * n for kl, n in at_one)


def table(name, found, sets):
    """-> lines, worst ratio by policy"""
    at_one = found[(1,) * len(next(iter(found)))]
    heads = "".join(f"{policy:>12}   ratio to 1.0  " for policy in POLICIES).rstrip()
    lines = [f"{name}: {len(at_one)} prompts, {sum(n for _, n in at_one)} tokens, KL at 1.0 {mean(at_one):.3g}",
             "  set  prompts" + heads]
    worst = dict.fromkeys(POLICIES, 0)
    for number, (n_prompts, keys) in enumerate(sets, 1):
        line = f"{number:5}{n_prompts:9}"
        for policy, key in keys.items():
            ratio, error = against(found[key], at_one)
            worst[policy] = max(worst[policy], ratio)
            line += f"{mean(found[key]):12.3g}{ratio:9.3g} +- {error:.1g}".ljust(29)
        lines.append(line.rstrip())
    return lines + ["  worst: " + ", ".join(f"{policy} {x:.3g}" for policy, x in worst.items())], worst


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("kvcal")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--held", type=int, default=20, help="prompts of each of the two sets that are evaluated")
    parser.add_argument("--tokens", type=int, default=200, help="of each prompt that is evaluated, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, help="where scale files and evaluations stay")
    return parser.parse_args()


def run(options, work):
    held, drawn_sets = drawn([json.loads(line) for line in options.prompts.read_text().splitlines()], options)
    files, sets = {}, []
    for number, records in enumerate(drawn_sets, 1):
        keys = {policy: scales(path) for policy, path in calibrated(options, work, number, records).items()}
        sets.append((len(records), keys))
        for policy, key in keys.items():
            if set(key) != {1}:
                files.setdefault(key, work / f"{number}-{policy}.json")
    distinct = {policy: len({keys[policy] for _, keys in sets}) for policy in POLICIES}
    lines = [f"{options.folder}, seed {options.seed}: {len(sets)} calibration sets; different scale files: " +
             ", ".join(f"{policy} {n}" for policy, n in distinct.items())]
    worse = []
    for name, records in held.items():
        more, worst = table(name, evaluated(options, work, name, records, files), sets)
        lines += more
        worse += [name] if worst["pow2"] > MOST else []
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.out:
        options.out.write_text(text)
    if worse:
        sys.exit(f"powers of two are worse than 1.0 by more than {MOST - 1:.0%} on " + ", ".join(worse))


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        run(options, work)


if __name__ == "__main__":
    main()
