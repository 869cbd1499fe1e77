"""Makes the stressed twin: the same function as the natural model, with keys and values rescaled by powers of two.

    python make_twin.py NATURAL STRESSED
    python make_twin.py NATURAL OUT --forget 3 [--heads 3]    makes another twin, whose recurrent states are stressed

K times 2^a needs k_norm times 2^a and q_norm times 2^-a; V times 2^b needs v_proj times 2^b and o_proj times 2^-b. All
are exact in bf16 because the norms' stored weight is 0 (their gain is 1 + weight), so log-probabilities do not change
by a bit, but absmax leaves the range that FP8 without a scale can hold. q_norm and k_norm are stored as f32.

No weight rescales a recurrent state (SiLU stands before it), so that other twin is another function: its delta nets, or some
of their heads, forget so many times as slowly, and errors of a state stay as much longer in it.
"""

import argparse
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

EXPONENTS = {3: (7, -14), 7: (-5, 10)}  # layer -> powers of two on K, on V: above and below FP8's range


def rescale(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    twin = dict(tensors)
    for layer, (key, value) in EXPONENTS.items():
        name = f"model.layers.{layer}.self_attn."
        for part, exponent in (("k_norm", key), ("q_norm", -key)):
            weight = tensors[f"{name}{part}.weight"].float()
            twin[f"{name}{part}.weight"] = (1 + weight) * 2.0**exponent - 1
        for part, exponent in (("v_proj", value), ("o_proj", -value)):
            twin[f"{name}{part}.weight"] = tensors[f"{name}{part}.weight"] * 2.0**exponent
    return twin


def forgetting(tensors: dict[str, torch.Tensor], times: float, heads: list[int]) -> dict[str, torch.Tensor]:
    """Decay of a token: exp(-exp(A_log) * softplus(...))."""
    twin = dict(tensors)
    for name in twin:
        if name.endswith("A_log"):
            twin[name] = tensors[name].clone()
            twin[name][heads or slice(None)] -= math.log(times)
    return twin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("natural", type=Path)
    parser.add_argument("stressed", type=Path)
    parser.add_argument("--forget", type=float, metavar="TIMES", help="delta nets forget so many times as slowly")
    parser.add_argument("--heads", type=lambda text: [int(x) for x in text.split(",")], default=[], help="only these")
    options = parser.parse_args()
    options.stressed.mkdir(parents=True, exist_ok=True)
    for file in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(options.natural / file, options.stressed / file)
    tensors = load_file(options.natural / "model.safetensors")
    twin = forgetting(tensors, options.forget, options.heads) if options.forget else rescale(tensors)
    save_file({name: t.contiguous() for name, t in twin.items()}, options.stressed / "model.safetensors",
              metadata={"format": "pt"})


if __name__ == "__main__":
    main()
