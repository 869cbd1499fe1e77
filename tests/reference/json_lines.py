"""JSON as the goldens are written: indented, innermost lists of numbers on one line, without spaces, so that diffs stay readable
and files small."""

import json
import re
from pathlib import Path

NUMBERS = re.compile(r"\[\s+((?:-?[\d.]+(?:e[+-]?\d+)?,\s+)*-?[\d.]+(?:e[+-]?\d+)?)\s+\]")


def write_json(path: Path, value) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    text = NUMBERS.sub(lambda match: "[" + re.sub(r",\s+", ",", match[1]) + "]", text)
    path.write_text(text + "\n")
