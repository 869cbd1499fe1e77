"""The program kvcal, for Python: where it is, how to run it, what it answers. No bindings.

>>> import kvcal
>>> scales = kvcal.calibrate("model", prompts="chats.jsonl", out="kv-cache-scales.json")
>>> scales.layers[0].key.scale
4.0
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn, Union

from kvcal._version import __version__ as __version__  # made by the build

# What both server plug-ins read a file with.
from kvcal.kv_cache_scales.scale_file import Layer, ScaleError, ScaleFile, read_scale_file

__all__ = ["Calibrator", "Difference", "Error", "Evaluation", "Finding", "Inspection", "Layer", "ScaleError", "ScaleFile",
           "Scales", "Undecided", "calibrate", "evaluate", "inspect", "load_scales", "main", "program", "run"]


def program() -> Path:
    """The executable; it needs no Python."""
    return Path(__file__).parent / "bin" / "kvcal"


def run(*arguments: Union[str, "os.PathLike[str]"], check: bool = True) -> "subprocess.CompletedProcess[str]":
    """Runs it; `stdout` of what is returned is the text that it printed. Errors and progress go where Python's own go.

    With `check`, every exit code but 0 raises CalledProcessError: 1 are findings, 2 is a failure.
    """
    command = [os.fspath(program()), *map(os.fspath, arguments)]
    return subprocess.run(command, check=check, stdout=subprocess.PIPE, text=True)


def load_scales(path: Union[str, "os.PathLike[str]"]) -> ScaleFile:
    """Reads a kv-cache-scales.json of version 1, or that of a pack's folder. Raises ScaleError, with the reason, for others.

    `layers` are those that keep a cache, by index; which of them another layer reads is in `owners`.
    """
    return read_scale_file(os.fspath(path))


# Behind program(), which they run.
from kvcal.results import Evaluation, Inspection, Scales
from kvcal.verbs import Error, Finding, Undecided, calibrate, evaluate, inspect
from kvcal.calibrator import Calibrator, Difference


def main() -> NoReturn:
    """Becomes the program: same process, same terminal, same signals."""
    os.execv(program(), ["kvcal", *sys.argv[1:]])
