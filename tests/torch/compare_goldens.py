"""kvcal.torch against kvcal: the same tokens through every golden checkpoint, in f32. transformers reads it before some are
changed to what only servers read.

    compare_goldens.py [CASE...]          with the environment of tests/reference/requirements.txt: make test-torch

Both count values rounded to bf16. Where the two computed a number a little differently and it lies at the edge of a
rounding, it is counted one code further: SHARE of the values may be, and no further but for values below 2^-10 of the
largest, which are differences of large ones; maxima and norms may differ by that one code. All else is equal: the layout
of the caches, tokens, layers without a cache.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import package
import numpy as np
import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

import kvcal.torch
from statistics_file import StatisticsFile, histogram, sites_of

sys.path.insert(0, str(package.SOURCE / "tests/reference"))
import picked_keys
from cases import CASES
from golden_checkpoint import write_checkpoint
from make_arch_goldens import load

GOLDEN = package.SOURCE / "tests/arch/golden"
SHARE = 1e-3
QUANTIZED = "transformers decodes its weights to other numbers"
NOT_COMPARED = {  # and why
    "falcon": "transformers' class has no attention interface",
    "falcon_newer": "transformers' class has no attention interface",
    "falcon_sequential": "transformers' class has no attention interface",
    "nemotron_h_puzzle": "the window of a layer is in a mask that its code makes, not where kvcal.torch reads windows",
}


def eager(module, query, key, value, attention_mask, **kwargs):
    """The class's own function, without the keys that an indexer has not picked."""
    function = sys.modules[type(module).__module__].eager_attention_forward
    return function(module, query, key, value, picked_keys.mask_of(module, attention_mask, kwargs), **kwargs)


def of_the_program(folder, prompts, out):
    done = subprocess.run([package.KVCAL, "calibrate", folder, "--prompts", prompts, "--precision", "f32", "--passes", "1",
                           "--max-length", "0", "--no-sanity", "--quiet", "--force", "--stats", out, "-o", f"{out}.json"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.strip())
    return StatisticsFile(out)


def of_transformers(case, seed, sequences, folder, out):
    write_checkpoint(case, folder, seed)
    model = load(case, folder, "f32")
    with kvcal.torch.observe(model, list(sequences)) as stats:
        for ids in sequences.values():
            model(input_ids=torch.tensor([ids]))
    stats.save(out, checkpoint=folder, replace=True)
    return StatisticsFile(out)


def layout_faults(a, b, renamed):
    """normed_output is not known to kvcal.torch; it scales a figure that it does not sample. `renamed`: the modules have
    other names in transformers than the published tensors."""
    for x, y in zip(a["caches"], b["caches"]):
        x.pop("normed_output", None)
        x.pop("capped_logits", None)
        if renamed:
            x["name"] = y["name"]
        different = {key: (x.get(key), y.get(key)) for key in {**x, **y} if x.get(key) != y.get(key)}
        rounded = {key: different.pop(key) for key in ("softmax_scale", "rope_magnitude") if key in different}
        if different or any(abs(p - q) > 1e-6 * abs(p) for p, q in rounded.values()):
            yield f"layer {x['layer']}: {different}"
    if a["layers_without_kv"] != b["layers_without_kv"]:
        yield f"layers_without_kv: {a['layers_without_kv']} and {b['layers_without_kv']}"


def codes_apart(a, b):
    n = max(len(a), len(b)) if a.ndim == 1 else None
    if n is not None:
        a, b = (np.pad(x, (0, n - len(x))) for x in (a, b))
    return int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0))


def means(site):
    """[channels, 2]: sums of x and x² of each channel."""
    octave = np.maximum(site["channel_octave"].astype(float), 1) - 134
    channel = np.repeat(np.arange(len(site["channel_offsets"]) - 1), np.diff(site["channel_offsets"].astype(np.int64)))
    sums = np.zeros((len(site["channel_offsets"]) - 1, 2))
    np.add.at(sums[:, 1], channel, site["channel_sum_m2"] * 4.0**octave)
    if "channel_signed_sum_m" in site:
        np.add.at(sums[:, 0], channel, site["channel_signed_sum_m"] * 2.0**octave)
    return sums


def moved_far(a, b):
    """Whether values other than small ones lie more than a code apart. Two neighbors that move look like one that moves
    two codes, so this is about the sum."""
    least = max(int(a["absmax"].max()) - (10 << 7), 0)
    difference = (histogram(a) - histogram(b))[:, :least:-1]
    return np.abs(difference.cumsum(1)).sum() > np.abs(difference).sum()


def site_faults(a, b):
    if moved_far(a, b):
        yield "values more than one code apart"
    if a["n_tokens"] != b["n_tokens"]:
        yield f"{a['n_tokens']} and {b['n_tokens']} tokens"
    for name in ("absmax", "channel_absmax", "position_absmax", "prompt_absmax"):
        if name in a and codes_apart(a[name], b[name]) > 1:
            yield f"{name} is {codes_apart(a[name], b[name])} codes off"
    if "pair_norm" in a and not np.allclose(a["pair_norm"], b["pair_norm"], rtol=2**-7):
        yield "pair_norm"
    size = means(a)[:, 1:]
    if not np.allclose(means(a), means(b), rtol=1e-3, atol=1e-3 * size.max()):
        yield "sums by channel"
    moved = (a["where"] != b["where"]).any(1) & (a["absmax"] == b["absmax"])
    if moved.mean() > 0.2:  # where the largest two lie within a code of each other
        yield "places of maxima"


def compare(a, b, renamed=False):
    """(values, how many lie in another code, faults)"""
    faults, n, moved = list(layout_faults(a.metadata, b.metadata, renamed)), 0, 0
    if [c["kind"] for c in a.metadata["caches"]] != [c["kind"] for c in b.metadata["caches"]]:
        return n, moved, faults
    for cache, layout in enumerate(a.metadata["caches"]):
        for name in sites_of(layout):
            x, y = a.site(cache, name), b.site(cache, name)
            n += int(histogram(x).sum())
            moved += int(np.abs(histogram(x) - histogram(y)).sum()) // 2
            faults += [f"layer {layout['layer']}, {name}: {fault}" for fault in site_faults(x, y)]
    return n, moved, faults + ([f"{moved} of {n} values"] if moved > SHARE * n else [])


def run(name, folder):
    case, golden = BY_NAME[name], json.loads((GOLDEN / name / "golden.json").read_text())
    sequences = {f"s{i}": ids for i, ids in enumerate(golden["sequences"])}
    prompts = Path(folder) / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"id": id, "input_ids": ids}) + "\n" for id, ids in sequences.items()))
    first = of_the_program(GOLDEN / name, prompts, Path(folder) / "program.kvstats")
    second = of_transformers(case, golden["seed"], sequences, Path(folder) / "model", Path(folder) / "torch.kvstats")
    return compare(first, second, case.published_tensors is not None or case.served_tensors is not None)


BY_NAME = {case.name: case for case in CASES}


def be_quiet():
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def show(name, n, moved, faults):
    print(f"{name:24} {n:8} values, {moved:4} one code apart  {'; '.join(faults)[:400] or 'equal'}", flush=True)


def prepare():
    AttentionInterface.register("golden", eager)
    AttentionMaskInterface.register("golden", eager_mask)
    be_quiet()


def main(names):
    prepare()
    names = names or sorted(path.parent.name for path in GOLDEN.glob("*/golden.json"))
    equal, excluded, different = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            if name in NOT_COMPARED or name not in BY_NAME:
                excluded += 1
                print(f"{name:24} excluded: {NOT_COMPARED.get(name, QUANTIZED)}", flush=True)
                continue
            try:
                n, moved, faults = run(name, folder)
            except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError, OSError) as error:
                n, moved, faults = 0, 0, [f"{type(error).__name__}: {error}"]
            equal, different = equal + (not faults), different + bool(faults)
            show(name, n, moved, faults)
    print(f"{len(names)} goldens: {equal} equal, {different} different, {excluded} excluded")
    return different > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
