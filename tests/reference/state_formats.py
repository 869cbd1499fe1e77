"""How servers store a recurrent state, with the types of ml_dtypes.

    python state_formats.py          (re)makes tests/parity/golden/state_formats.json

That file has a hash for every format and range, of what 65,536 numbers become that share a scale; zero is one number there.
"""

import hashlib
from pathlib import Path

import ml_dtypes
import numpy as np

from json_lines import write_json

GOLDEN = Path(__file__).resolve().parents[1] / "parity" / "golden" / "state_formats.json"
FLOATS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "fp8_e4m3": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2}
LARGEST = {"fp8_e4m3": 448, "fp8_e5m2": 57344, "int8": 127, "int16": 32767}  # of formats with scales
TILE = 64
STOCHASTIC = "f16_stochastic"
RANGES = (448.0, 1.0, 0.0123, 3e-9)


def mixed(x: np.ndarray) -> np.ndarray:
    """Output of splitmix64 whose state was x."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def between_halves(x: np.ndarray, layer: int, passed: int) -> np.ndarray:
    """The neighbour in float16 below or above |x|: as 13 random bits say, added behind the last one that float16 has."""
    seed = mixed(mixed(np.array([layer], np.uint64)) + np.uint64(passed))
    share = (mixed(seed + np.arange(x.size, dtype=np.uint64)) >> np.uint64(51)).astype(np.float64).reshape(x.shape) / 8192
    exact = np.abs(x).astype(np.float64)
    step = np.exp2(np.maximum(np.frexp(exact)[1] - 1, -14) - 10.0)
    return np.copysign(np.floor(exact / step + share) * step, x).astype(np.float32)


def stored(x: np.ndarray, name: str) -> np.ndarray:
    if name not in LARGEST:
        return x.astype(FLOATS[name]).astype(np.float32)
    x = np.clip(x, -LARGEST[name], LARGEST[name])
    return (x.astype(FLOATS[name]) if name in FLOATS else np.rint(x)).astype(np.float32)


def round_state(state: np.ndarray, name: str, layer: int, passed: int) -> np.ndarray:
    """state [heads, keys, values] in f32, or [values, keys] of a layer without heads, after so many tokens. name: a format,
    and what has a scale of its own, behind "_per_": head, tile, row; else the whole state."""
    name, _, per = name.partition("_per_")
    if name == STOCHASTIC:
        return between_halves(state, layer, passed)
    if name not in LARGEST:
        return stored(state, name)
    by_head = state if state.ndim == 3 else state.T[None]
    absmax = np.abs(by_head).max(axis=1)  # of each row
    width = {"": None, "head": absmax.shape[1], "tile": TILE, "row": 1}[per]
    if width is None:
        absmax = np.full_like(absmax, absmax.max())
    else:
        absmax = np.concatenate([np.repeat(absmax[:, i:i + width].max(axis=1, keepdims=True), absmax[:, i:i + width].shape[1], 1)
                                 for i in range(0, absmax.shape[1], width)], axis=1)
    scale = absmax / np.float32(LARGEST[name])
    scale = np.where(scale > 0, scale, np.float32(1))[:, None]
    rounded = stored(by_head / scale, name) * scale
    return rounded if state.ndim == 3 else np.ascontiguousarray(rounded[0].T)


# ------------------------------------------------------------------------------------------------ many numbers
def numbers(absmax: float) -> np.ndarray:
    """All of bfloat16 times 0.77, so that they have more bits; those that are larger, or no numbers, become absmax."""
    x = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    x = x.view(np.float32)
    with np.errstate(invalid="ignore"):
        y = x * np.float32(0.77)
        return np.where(np.abs(y) <= np.float32(absmax), y, np.copysign(np.float32(absmax), x))


def digest(y: np.ndarray) -> str:
    return hashlib.sha256((y + np.float32(0)).tobytes()).hexdigest()


def main() -> None:
    names = [*FLOATS, "int8", "int16", STOCHASTIC]
    golden = {"made_by": Path(__file__).name, "ml_dtypes": ml_dtypes.__version__, "numpy": np.__version__, "formats": {}}
    for name in names:
        golden["formats"][name] = [
            {"absmax": r, "f32": digest(round_state(numbers(r).reshape(1, 256, 256), name, 3, 42))} for r in RANGES]
    write_json(GOLDEN, golden)


if __name__ == "__main__":
    main()
