"""kvcal.torch_states against kvcal evaluate --state-dtype: tokens of every golden whose checkpoint has a recurrent state,
in f32, stored after every token and after every four.

    compare_states.py [CASE...]          with the environment of tests/reference/requirements.txt: make test-torch

A number at the edge of a rounding takes its other neighbour where the two computed it a little differently, and what follows
differs: over so few tokens the mean KL of a format may be SHARE of itself apart (as in tests/harness/tolerances.h, of parts of a
sequence), and NOISE where it is next to nothing. That tells another place, bf16 and scales by row from all else, but not scales that
are shared a little otherwise: test_states.py has formats and scales to the bit. Where routers are so close that such a neighbour
chooses another expert (goldens named _close) nothing is compared.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import package
import torch

from compare_goldens import BY_NAME, GOLDEN, NOT_COMPARED, load, prepare, write_checkpoint
from kvcal import torch_states

SHARE, NOISE = 0.4, 3e-9
FORMATS = ("bf16", "f16_stochastic", "fp8_e4m3", "fp8_e5m2_per_tile", "int8_per_row", "int8_per_head", "int16")
CHUNKS = (1, 4)
NO_CACHE = ("bailing_linear",)  # its class is the tests' own and keeps none
TOKENS, SEQUENCES = 24, 2  # at most, of a golden: a pass for each token takes time


def of_the_program(name, prompts, chunk, out):
    """{format: mean KL}, or nothing of a model without a recurrent state."""
    done = subprocess.run([package.KVCAL, "evaluate", GOLDEN / name, "--prompts", prompts, "--precision", "f32", "--max-length",
                           "0", "--state-dtype", ",".join(FORMATS), "--state-chunk", str(chunk), "--quiet", "--force", "-o", out],
                          capture_output=True, text=True)
    if done.returncode != 0:
        if "no recurrent" in done.stderr:
            return {}
        raise RuntimeError(done.stderr.strip())
    variants = {v["name"]: v["kl"]["mean"] for v in json.loads(out.read_text())["variants"]}
    return {f: variants[f"state_{f}"] for f in FORMATS}


def has_states(model, ids):
    return bool(torch_states.states_of(model(input_ids=torch.tensor([ids]), use_cache=True).past_key_values))


def run(name, folder):
    """Lines of what differs, and the largest difference of a KL as a share of it; no share without a recurrent state."""
    golden = json.loads((GOLDEN / name / "golden.json").read_text())
    sequences = [ids[:TOKENS] for ids in golden["sequences"][:SEQUENCES]]
    prompts, out = folder / "prompts.jsonl", folder / "evaluation.json"
    prompts.write_text("".join(json.dumps({"id": f"s{i}", "input_ids": ids}) + "\n" for i, ids in enumerate(sequences)))
    write_checkpoint(BY_NAME[name], folder / "model", golden["seed"])
    model = load(BY_NAME[name], folder / "model", "f32")
    faults, worst = [], None
    for chunk in CHUNKS:
        expected = of_the_program(name, prompts, chunk, out)
        if not expected:
            return (["a state that kvcal does not see"] if has_states(model, sequences[0]) else []), None
        for figures in torch_states.compare(model, sequences, FORMATS, chunk):
            kl = expected[figures.format]
            apart = abs(figures.mean_kl - kl)
            if apart > SHARE * kl + NOISE:
                faults.append(f"{figures.format}, chunk {chunk}: {figures.mean_kl:.4g}, the program {kl:.4g}")
            worst = max(worst or 0.0, apart / kl if kl > NOISE else 0.0)
    return faults, worst


def main(names):
    prepare()
    torch.set_num_threads(1)
    recurrent, different = 0, 0
    for name in names or sorted(path.parent.name for path in GOLDEN.glob("*/golden.json")):
        if name in NOT_COMPARED or name not in BY_NAME or name in NO_CACHE or name.endswith("_close"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                faults, worst = run(name, Path(folder))
            except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError, OSError) as error:
                faults, worst = [f"{type(error).__name__}: {error}"], None
        recurrent, different = recurrent + (worst is not None), different + bool(faults)
        if faults or worst is not None:
            print(f"{name:24} KL of states, at most {100 * (worst or 0):.0f} % apart  {'; '.join(faults)[:400] or 'alike'}", flush=True)
    print(f"{recurrent} goldens with a recurrent state, {different} different")
    return different > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
