"""KL of the scale files that default_scales.py left in WORK, by numpy, beside what kvcal said of the same prompts.

    default_judge.py KVCAL FOLDER WORK

1.0, each file of powers of two, and the worst of absmax, on a few prompts: numpy is slow. Fails where they disagree by more
than roundings near an edge explain.
"""
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from default_scales import mean, scales
from llama import Llama
from measure import rounding

WITHIN, N_PROMPTS, TOKENS = .15, 6, 200


def ids(kvcal, folder, prompts):
    run = subprocess.run([kvcal, "prompts", folder, "--prompts", prompts, "--max-length", str(TOKENS), "--json"],
                         check=True, stdout=subprocess.PIPE, text=True)
    return {x["id"]: np.array(x["input_ids"]) for x in map(json.loads, run.stdout.splitlines())}


def log_probabilities(model, prompt, cached_of):
    x = model.embed(prompt)
    for layer in range(model.n_layers):
        x = model.layer(layer, x, [(0, len(prompt))], cached_of(layer))
    y = model.logits(x)
    y -= y.max(-1, keepdims=True)
    return y - np.log(np.exp(y).sum(-1, keepdims=True))


def chosen(evaluation, work):
    """-> variant of the evaluation by name, with its scales: two for each layer"""
    by_hash = {hashlib.sha256(p.read_bytes()).hexdigest(): p for p in work.glob("*-*.json")}
    files = {f["name"]: by_hash[f["sha256"]] for f in evaluation["files"]}
    variants = {v["name"]: v for v in evaluation["variants"]}
    worst = max((n for n, p in files.items() if "absmax" in p.name), key=lambda n: variants[n]["kl"]["mean"])
    found = {"1.0": (variants["scale_1.0"], [(1, 1)] * 10000)}
    for name, path in files.items():
        if name == worst or "pow2" in path.name:
            s = scales(path)
            found[path.stem] = (variants[name], list(zip(s[::2], s[1::2])))
    return found


def main():
    kvcal, folder, work = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    evaluation = json.loads((work / "chats-evaluation.json").read_text())
    variants, model = chosen(evaluation, work), Llama(folder)
    prompts = dict(sorted(ids(kvcal, folder, work / "chats.jsonl").items())[:N_PROMPTS])
    sums, tokens = dict.fromkeys(variants, 0), sum(map(len, prompts.values()))
    for prompt in prompts.values():
        exact = log_probabilities(model, prompt, lambda _: None)
        for name, (_, pairs) in variants.items():
            rounded = log_probabilities(model, prompt, lambda layer: rounding("kv", pairs[layer]))
            sums[name] += (np.exp(exact) * (exact - rounded)).sum(dtype=np.float64)
    wrong = []
    for name, (variant, _) in variants.items():
        tagged = [variant["by_tag"]["prompt " + prompt] for prompt in prompts]
        ours, theirs = mean([(x["kl"]["mean"], x["n_tokens"]) for x in tagged]), sums[name] / tokens
        print(f"{name}: KL of {tokens} tokens {ours:.3g}, by numpy {theirs:.3g}", flush=True)
        if abs(ours - theirs) > WITHIN * theirs:
            wrong.append(name)
    if wrong:
        sys.exit("they disagree: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
