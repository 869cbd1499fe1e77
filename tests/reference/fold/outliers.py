"""Makes a twin of a demo model with outlier channels: the same function, with a few channels of keys 16 to 64 times as large.

    python outliers.py MODEL OUT

k_norm times 2^a needs q_norm times 2^-a; both are stored as w of 1 + w, in f32. Rotary channels come in pairs.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

OUTLIERS = {2: 5, 20: 4, 33: 6, 51: 5}  # channel -> power of two; 2 is rotary, its partner gets the same


def powers(config: dict) -> torch.Tensor:
    rotary = int(config["head_dim"] * config.get("rope_parameters", config)["partial_rotary_factor"])
    found = torch.zeros(config["head_dim"])
    for channel, power in OUTLIERS.items():
        found[channel] = power
        if channel < rotary:
            found[(channel + rotary // 2) % rotary] = power
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    shutil.copytree(options.model, options.out)
    tensors = load_file(options.model / "model.safetensors")
    change = powers(json.loads((options.model / "config.json").read_text()))
    for name, tensor in tensors.items():
        if name.endswith(("k_norm.weight", "q_norm.weight")):
            sign = 1 if "k_norm" in name else -1
            tensors[name] = (1 + tensor.float()) * torch.exp2(sign * change) - 1
    save_file(tensors, options.out / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
