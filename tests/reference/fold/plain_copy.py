"""Checkpoints in a form that the framework reads without a GPU, in numpy: dequantized, and with the shapes that it has."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from shards import shards

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
FP4 = np.concatenate([E2M1, -E2M1])
SCALES = ("weight_scale_inv", "weight_scale", "weight_scale_2", "input_scale")


def nibbles(packed: np.ndarray) -> np.ndarray:
    """Codes of E2M1, the lower half of a byte first, as numbers."""
    return FP4[np.stack((packed & 15, packed >> 4), axis=-1)].reshape(*packed.shape[:-1], -1)


def spread(scale: np.ndarray, shape: tuple, blocks: list | None) -> np.ndarray:
    """A scale for each element of a weight [rows, columns]: of all of it, of a row, of a block or of a group."""
    scale = scale.astype(np.float32)
    if scale.size == 1:
        return np.broadcast_to(scale.reshape(1, 1), shape)
    if scale.ndim == 1 or scale.shape[1] == 1 and not blocks:
        return np.broadcast_to(scale.reshape(-1, 1), shape)
    rows, columns = blocks or (1, shape[1] // scale.shape[1])
    return scale.repeat(rows, 0).repeat(columns, 1)[:shape[0], :shape[1]]


def block_size(config: dict) -> list | None:
    quantization = config["quantization_config"]
    if "weight_block_size" in quantization:
        return quantization["weight_block_size"]
    groups = quantization.get("config_groups", {}).values()
    return next((g["weights"]["block_structure"] for g in groups if g["weights"].get("block_structure")), None)


def microscaled(tensors: dict, name: str) -> np.ndarray:
    """Experts in MXFP4 [experts, rows, groups, 16] and [experts, rows, groups] -> [experts, columns, rows]"""
    scales = np.ldexp(np.float32(1), tensors[name + "_scales"].astype(np.int32) - 127)
    numbers = nibbles(tensors[name + "_blocks"]) * scales[..., None]
    return np.ascontiguousarray(numbers.reshape(*numbers.shape[:2], -1).swapaxes(1, 2))


def dequantized(tensors: dict, module: str, blocks: list | None) -> np.ndarray:
    weight = tensors[module + ".weight"]
    scale = tensors.get(module + ".weight_scale_inv", tensors.get(module + ".weight_scale"))
    packed = weight.dtype == np.uint8
    numbers = nibbles(weight) if packed else weight.astype(np.float32)
    product = numbers * spread(scale, numbers.shape, None if packed else blocks)
    return product * tensors[module + ".weight_scale_2"] if module + ".weight_scale_2" in tensors else product


def plain_tensors(stored: dict, blocks: list | None) -> dict:
    plain = {}
    for name, array in stored.items():
        module, _, last = name.rpartition(".")
        if last.endswith("_blocks"):
            plain[name.removesuffix("_blocks")] = microscaled(stored, name.removesuffix("_blocks"))
        elif last == "weight" and any(f"{module}.{s}" in stored for s in SCALES[:2]):
            plain[name] = dequantized(stored, module, blocks)
        elif last not in SCALES and not last.endswith("_scales"):
            plain[name] = array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
    return plain


def as_framework_has_it(config: dict, tensors: dict) -> None:
    """Forms of published files that servers read and the framework does not."""
    if isinstance(config.get("sliding_window_pattern"), str):  # "LLLG"
        config["sliding_window_pattern"] = len(config["sliding_window_pattern"])
    draft = f"model.layers.{config.get('num_hidden_layers')}."
    for name, array in list(tensors.items()):
        if name.startswith(draft):
            del tensors[name]
        elif config["model_type"] == "kimi_linear" and name.endswith("conv1d.weight") and array.ndim == 2:
            tensors[name] = array[:, None]
        elif name.endswith("forget_gate.A_log") and array.ndim == 1:
            tensors[name] = array.reshape(1, 1, -1, 1)


def write_plain(folder: Path, out: Path) -> Path:
    """-> `out`, the same model as the framework reads it: no tensor quantized, all of bf16 in f32"""
    config = json.loads((folder / "config.json").read_text())
    stored = {name: shard.array(name) for shard in shards(folder).values() for name in shard.tensors}
    tensors = plain_tensors(stored, block_size(config) if "quantization_config" in config else None)
    as_framework_has_it(config, tensors)
    config.pop("quantization_config", None)
    out.mkdir(parents=True)
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, out / "model.safetensors",
              {"format": "pt"})
    (out / "config.json").write_text(json.dumps(config))
    return out
