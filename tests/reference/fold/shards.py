"""Safetensors as bytes, and powers of two in them, in numpy: what a fold must leave as it was, and what it must make.

The powers are applied by arithmetic on decoded numbers; a fold works on their codes.
"""

import json
from pathlib import Path

import ml_dtypes
import numpy as np

TYPES = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "F64": np.float64,
         "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}
EXPONENTS = ("U8", "F8_E8M0")  # codes that are exponents themselves
INDEX = "model.safetensors.index.json"


class Shard:
    """One file: its header's bytes, and each tensor's place."""

    def __init__(self, path: Path):
        self.bytes = path.read_bytes()
        self.data = 8 + int.from_bytes(self.bytes[:8], "little")
        self.tensors = json.loads(self.bytes[8:self.data])
        self.tensors.pop("__metadata__", None)

    def header(self) -> bytes:
        return self.bytes[:self.data]

    def raw(self, name: str) -> bytes:
        begin, end = self.tensors[name]["data_offsets"]
        return self.bytes[self.data + begin:self.data + end]

    def array(self, name: str) -> np.ndarray:
        tensor = self.tensors[name]
        kind = TYPES.get(tensor["dtype"], np.uint8)
        return np.frombuffer(self.raw(name), kind).reshape(tensor["shape"])


def shards(folder: Path) -> dict[str, Shard]:
    """Those that a server reads: what the index names, or the only file."""
    if (folder / INDEX).exists():
        names = sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()))
    elif (folder / "adapter_model.safetensors").exists():
        names = ["adapter_model.safetensors"]
    else:
        names = ["model.safetensors"]
    return {name: Shard(folder / name) for name in names}


def powers_of(entry: dict) -> tuple[str, np.ndarray]:
    """-> ("rows" or "columns", exponent of each line) of an entry of a record's tensors"""
    axis = "rows" if "rows" in entry else "columns"
    exponents = np.zeros(entry["lines"], np.int64)
    for (first, count), exponent in zip(entry[axis], entry["exponents"], strict=True):
        exponents[first:first + count] += exponent
    return axis, exponents


def multiplied(array: np.ndarray, dtype: str, axis: str, exponents: np.ndarray) -> bytes:
    """The array's lines times their powers, as bytes. Raises ValueError where a product is no number of that type."""
    flat = array.reshape(len(exponents), -1) if axis == "rows" else array.reshape(-1, len(exponents))
    lines = exponents[:, None] if axis == "rows" else exponents[None, :]
    if dtype in EXPONENTS:
        sums = flat.astype(np.int64) + np.where(flat == 255, 0, lines)
        if sums.min() < 0 or sums.max() > 255:
            raise ValueError("an exponent leaves its byte")
        return sums.astype(np.uint8).tobytes()
    exact = np.ldexp(flat.astype(np.float64), lines)
    stored = exact.astype(TYPES[dtype])
    if not np.array_equal(stored.astype(np.float64), exact, equal_nan=True):
        raise ValueError("a product is rounded")
    normal = float(ml_dtypes.finfo(TYPES[dtype]).smallest_normal)
    became_small = (np.abs(exact) < normal) & (np.abs(flat.astype(np.float64)) >= normal)
    if became_small.any():
        raise ValueError("a normal number becomes subnormal")
    return stored.tobytes()


def multiplied_gains(array: np.ndarray, dtype: str, exponents: np.ndarray) -> bytes:
    """Gains w that multiply by 1 + w: 1 + w times its power. Raises ValueError where the new w is no number of BF16."""
    exact = np.ldexp(1 + array.astype(np.float64), exponents) - 1
    stored = exact.astype(ml_dtypes.bfloat16)
    if not np.array_equal(stored.astype(np.float64), exact):
        raise ValueError("a gain is rounded")
    return stored.astype(TYPES[dtype]).tobytes()


def expected(shard: Shard, name: str, entries: list[dict]) -> bytes:
    """A tensor after all entries of the record that name it."""
    tensor = shard.tensors[name]
    array = shard.array(name)
    for entry in entries:
        axis, exponents = powers_of(entry)
        if entry.get("one_plus"):
            raw = multiplied_gains(array, tensor["dtype"], exponents)
        else:
            raw = multiplied(array, tensor["dtype"], axis, exponents)
        array = np.frombuffer(raw, array.dtype).reshape(array.shape)
    return array.tobytes()


def compare_shard(name: str, original: Shard, folded: Shard, record: dict) -> list[str]:
    if original.header() != folded.header() or len(original.bytes) != len(folded.bytes):
        return [f"{name}: another header or length"]
    found = []
    for tensor in original.tensors:
        entries = [entry for entry in record["tensors"] if entry["name"] == tensor]
        try:
            if expected(original, tensor, entries) != folded.raw(tensor):
                found.append(f"{tensor} is not the original's" + (" times its powers" if entries else ""))
        except ValueError as e:
            found.append(f"{tensor}: {e}")
    return found


def compare_folders(original: Path, folded: Path, record: dict) -> list[str]:
    """What differs between a folder and what the record says that was made of it."""
    before, after = shards(original), shards(folded)
    if before.keys() != after.keys():
        return [f"shards {sorted(before.keys() ^ after.keys())} on one side only"]
    found = [line for name in before for line in compare_shard(name, before[name], after[name], record)]
    known = {tensor for shard in before.values() for tensor in shard.tensors}
    found += [f"the record names {entry['name']}, which is not there" for entry in record["tensors"]
              if entry["name"] not in known]
    others = {path.name for path in original.iterdir()} - set(before)
    if others != {path.name for path in folded.iterdir()} - set(after) - {"kvcal-fold.json"}:
        found.append("other files than the original's")
    else:
        found += [f"{name} differs" for name in others if (original / name).read_bytes() != (folded / name).read_bytes()]
    return found
