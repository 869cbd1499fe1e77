"""How servers store rows of a KV cache, with the types of ml_dtypes: what goes in, what attention reads back.

    python cache_formats.py          (re)makes tests/parity/golden/cache_formats.json

That file has a hash for every format and scale, of what all 65,536 numbers of bfloat16 become: of the f32 results, and
of those rounded to bf16. NaN is one number there, and so is zero: not every format has a negative one.
"""

import hashlib
from pathlib import Path

import ml_dtypes
import numpy as np

from json_lines import write_json

GOLDEN = Path(__file__).resolve().parents[1] / "parity" / "golden" / "cache_formats.json"
TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "e5m2": ml_dtypes.float8_e5m2,
         "int8": np.int8, "nvfp4": ml_dtypes.float4_e2m1fn}
LARGEST = {name: 127.0 if name == "int8" else float(ml_dtypes.finfo(dtype).max) for name, dtype in TYPES.items()}
BLOCK = 16  # channels of NVFP4 that share a scale
SCALES = (1.0, 0.37, 0.0123)


def stored(x: np.ndarray, name: str) -> np.ndarray:
    """The nearest numbers of the format, as f32; INT8 is symmetric. Beyond the largest they saturate."""
    x = np.clip(x, -LARGEST[name], LARGEST[name])
    if name != "int8":
        return x.astype(TYPES[name]).astype(np.float32)
    return np.where(np.isnan(x), x, np.rint(np.nan_to_num(x)).astype(np.int8).astype(np.float32))


def in_blocks(x: np.ndarray, write: np.float32, read: np.float32) -> np.ndarray:
    """NVFP4, x [..., channels]: a scale in E4M3 for each block, itself stored in units of `write`."""
    blocks = x.reshape(*x.shape[:-1], -1, BLOCK)
    of_block = stored(np.abs(blocks).max(axis=-1, keepdims=True) / np.float32(LARGEST["nvfp4"]) / write, "e4m3")
    unit = write * of_block
    quotients = np.divide(blocks, unit, out=np.zeros_like(blocks), where=unit != 0)
    return (stored(quotients, "nvfp4") * (read * of_block)).reshape(x.shape)


def hadamard(n: int) -> np.ndarray:
    """Sylvester's matrix of a power of two, orthonormal."""
    return np.array([[1.0]]) if n == 1 else np.kron(hadamard(n // 2), np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2))


def turned(x: np.ndarray, factor: float) -> np.ndarray:
    """Parts of a row, as wide as the largest power of two that divides it, turned and multiplied."""
    together = x.shape[-1] & -x.shape[-1]
    return (x.reshape(*x.shape[:-1], -1, together).astype(np.float64) @ hadamard(together) * factor).reshape(x.shape).astype(np.float32)


def round_rows(x: np.ndarray, rounding: dict) -> np.ndarray:
    """x [tokens, heads, channels] in f32. rounding: `format`; `write`, `read` (absent: as written), lists of one scale, one
    a head, or one a channel of each head. Without scales each row of a head has its own. `means`, of the channels of each head, are
    subtracted before and added again; with `turned`, rows are turned, multiplied by it, and back."""
    rounding = dict(rounding)
    if means := rounding.pop("means", None):
        means = np.array(means, np.float32).reshape(x.shape[1:])
        return round_rows(x - means, rounding) + means
    if factor := rounding.pop("turned", None):
        return turned(round_rows(turned(x, factor), rounding), 1 / factor)
    name = rounding["format"]
    if "write" not in rounding:
        absmax = np.abs(x).max(axis=-1, keepdims=True)
        write = read = np.where(absmax > 0, absmax / np.float32(LARGEST[name]), np.float32(1))
    else:
        write, read = (np.array(rounding.get(key, rounding["write"]), np.float32) for key in ("write", "read"))
        if name == "nvfp4":
            return in_blocks(x, write[0], read[0])
        shape = (1, -1, 1) if len(write) in (1, x.shape[1]) else (1, *x.shape[1:])
        write, read = write.reshape(shape), read.reshape(shape)
    return stored(x / write, name) * read


# ------------------------------------------------------------------------------------------------ all of bfloat16
def digest(y: np.ndarray) -> str:
    bits = (y + y.dtype.type(0)).astype(y.dtype).view(np.uint32 if y.dtype == np.float32 else np.uint16)
    return hashlib.sha256(np.where(np.isnan(y), bits.dtype.type(0), bits).tobytes()).hexdigest()


def digests(x: np.ndarray, rounding: dict) -> dict:
    y = round_rows(x.reshape(1, 1, -1), rounding).reshape(-1)
    return {"f32": digest(y), "bf16": digest(y.astype(ml_dtypes.bfloat16))}


def below_six(x: np.ndarray) -> np.ndarray:
    """Blocks in which 6 is the largest number, so that their scale is 1: all other numbers up to there, zeros behind."""
    numbers = x[np.abs(x) <= 6]
    numbers = np.concatenate([numbers, np.zeros(-len(numbers) % (BLOCK - 1), np.float32)]).reshape(-1, BLOCK - 1)
    return np.concatenate([np.full((len(numbers), 1), 6, np.float32), numbers], axis=1).reshape(-1)


def main() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
    finite = x[np.isfinite(x)]
    golden = {"made_by": Path(__file__).name, "ml_dtypes": ml_dtypes.__version__, "numpy": np.__version__, "formats": {}}
    with np.errstate(over="ignore", invalid="ignore"):
        for name in TYPES:
            inputs = finite if name == "nvfp4" else x
            golden["formats"][name] = [{"scale": s, **digests(inputs, {"format": name, "write": [s]})} for s in SCALES]
        golden["nvfp4_blocks_of_scale_1"] = digests(below_six(x), {"format": "nvfp4", "write": [1.0]})
    GOLDEN.parent.mkdir(exist_ok=True)
    write_json(GOLDEN, golden)


if __name__ == "__main__":
    main()
