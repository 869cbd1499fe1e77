"""JSON as the goldens are written: indented, innermost lists of numbers on one line, without spaces, so that diffs stay readable
and files small; numbers that are float32 with the digits that float32 needs."""

import json
import re
import struct
from pathlib import Path

NUMBERS = re.compile(r"\[\s+((?:-?[\d.]+(?:e[+-]?\d+)?,\s+)*-?[\d.]+(?:e[+-]?\d+)?)\s+\]")


def as_float32(x: float) -> float:
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return float("nan")


def shortest(value):
    """A float32 becomes the shortest decimal that reads back as it; all else stays."""
    if isinstance(value, dict):
        return {key: shortest(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shortest(item) for item in value]
    if not isinstance(value, float) or as_float32(value) != value:
        return value
    return next(short for digits in range(1, 18) if as_float32(short := float(f"{value:.{digits}g}")) == value)


def write_small_json(path: Path, value) -> None:
    """In one line: for what nobody reads."""
    path.write_text(json.dumps(shortest(value), separators=(",", ":"), ensure_ascii=False) + "\n")


def write_json(path: Path, value) -> None:
    text = json.dumps(shortest(value), indent=1, ensure_ascii=False)
    text = NUMBERS.sub(lambda match: "[" + re.sub(r",\s+", ",", match[1]) + "]", text)
    path.write_text(text + "\n")
