"""calibrate, evaluate and inspect as functions, which run the program and read what it writes."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from typing import IO, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import kvcal
from kvcal.results import Evaluation, Inspection, Scales

Path = Union[str, "os.PathLike[str]"]
Prompt = Union[str, Mapping[str, Any], Sequence[Mapping[str, Any]], "os.PathLike[str]"]
ScaleInput = Union[Path, Scales, "kvcal.ScaleFile"]

# What changes where the result goes, or that there is one.
NOT_HERE = {"help", "help_all", "json", "dry_run", "progress", "shard", "mpi", "evaluate", "refits"}
_NAME = re.compile("kvcal: (?!warning: )(error: )?")
_WIDTH = 50


class Error(RuntimeError):
    """The program failed; the message is its line. Not so Finding and Undecided, where it did its work."""

    def __init__(self, line: str, exit_code: int) -> None:
        super().__init__(line)
        self.exit_code = exit_code
        self.evaluation: Optional[Evaluation] = None  # where a limit is the matter


class Finding(Error):
    """A limit is broken, or a scale file is stale; exit code 1."""


class Undecided(Error):
    """The prompts do not show whether a limit is kept; exit code 3."""


Error.__module__ = Finding.__module__ = Undecided.__module__ = "kvcal"


def calibrate(model: Path, *, prompts: Union[None, Path, Iterable[Prompt]] = None, out: Optional[Path] = None,
              policy: Optional[str] = None, dtype: Optional[str] = None, max_length: Optional[int] = None,
              max_prompts: Optional[int] = None, check: bool = False, quiet: bool = False, **options: Any) -> Scales:
    """Measures a checkpoint and chooses the scales of its KV cache, as `kvcal calibrate` does.

    Other options of the program are keywords, too: `granularity="head"`, `force=True`. `prompts` is a file, or a list of
    texts, chats, what lines of a prompt file have, or Paths. Without `out` no file is written; to_json() is what would be in
    it. With `check`, a stale file `out` is a Finding.
    """
    return Scales.from_json(_run("calibrate", **locals())[0])


def evaluate(model: Path, *, prompts: Union[None, Path, Iterable[Prompt]] = None,
             scales: Union[None, ScaleInput, Sequence[ScaleInput]] = None, formats: Optional[Sequence[str]] = None,
             generate: bool = False, max_kl: Optional[float] = None, min_agreement: Optional[float] = None,
             out: Optional[Path] = None, max_length: Optional[int] = None, max_prompts: Optional[int] = None,
             quiet: bool = False, **options: Any) -> Evaluation:
    """Measures what a rounded cache does to the model's predictions, as `kvcal evaluate` does.

    `scales`: files, or what calibrate returned. A limit that is broken raises Finding, one that these prompts cannot decide
    Undecided; both have the `evaluation`. The rest is as with calibrate.
    """
    text, error = _run("evaluate", **locals())
    if error is not None:
        error.evaluation = Evaluation.from_json(text)
        raise error
    return Evaluation.from_json(text)


def inspect(model: Path, *, max_model_len: Optional[int] = None) -> Inspection:
    """Which layers have a cache, what it takes, and whether the model can be calibrated."""
    return Inspection.from_json(_run("inspect", options={}, **locals())[0])


def _run(verb: str, model: Path, options: Dict[str, Any], **named: Any) -> Tuple[bytes, Optional[Error]]:
    """The bytes that it wrote, and what it found."""
    for name in NOT_HERE.intersection(options):
        raise TypeError(f"{verb}() takes no {name}=; kvcal.run(\"{verb}\", ...) does")
    options, folder = {**named, **options}, os.fspath(model)
    out = None if named.get("out") == "-" else named.get("out")
    if verb == "inspect":
        options["json"] = True
    else:
        options.update(out="-" if out is None else out, progress="json")
    with ExitStack() as stack:
        options["prompts"], stdin = prompt_words(options.get("prompts"), stack)
        options["scales"], hidden = _scales(options.get("scales"), stack)
        words = [verb, "./" + folder if folder.startswith("-") else folder, *option_words(options)]
        printed = stack.enter_context(tempfile.TemporaryFile())
        error = _ended(words, stdin, printed if out is None else None, hidden, bool(options.get("quiet")))
        # Of these verbs, inspect says itself what it found, and evaluate has written its file.
        if error is not None and (error.exit_code not in (1, 3) or verb == "calibrate"):
            raise error
        written: IO[bytes] = printed if out is None else stack.enter_context(open(out, "rb"))
        written.seek(0)
        return written.read(), error


def option_words(options: Dict[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is not None and each is not False:
                path = os.fspath(each) if isinstance(each, os.PathLike) else each
                yield f"{flag}={json.dumps(each) if each is True or isinstance(each, Mapping) else path}"


def prompt_words(prompts: Any, stack: ExitStack) -> Tuple[Any, Optional[IO[bytes]]]:
    """What --prompts takes, and standard input: a file without a name, so that paths in records are of the current folder."""
    if prompts is None or isinstance(prompts, (str, os.PathLike)):
        return prompts, None
    if isinstance(prompts, (Mapping, bytes)):
        raise TypeError(f"prompts is one {type(prompts).__name__}, expected a file or a list of records")
    records = list(prompts)
    if records and all(isinstance(record, os.PathLike) for record in records):
        return records, None
    file = stack.enter_context(tempfile.TemporaryFile())
    for record in records:
        file.write(json.dumps(_record(record), allow_nan=False).encode() + b"\n")
    file.seek(0)
    return "-", file


def _record(prompt: Any) -> Any:
    if isinstance(prompt, str):
        if re.fullmatch(r"\S+\.(jsonl|json|txt)(\.gz|\.zst)?", prompt):
            raise ValueError(f"prompts: '{prompt}' in a list is a text and looks like a file; pathlib.Path('{prompt}') is one")
        return prompt
    if isinstance(prompt, (list, tuple)):
        return {"messages": prompt}
    if isinstance(prompt, Mapping):
        return dict(prompt)
    raise TypeError(f"prompts: a {type(prompt).__name__} in a list, expected texts, chats and records, or Paths alone")


def _scales(scales: Any, stack: ExitStack) -> Tuple[List[Any], str]:
    """What --scales takes, and the folder with those that are in no file yet, "" without."""
    words: List[Any] = []
    folder = ""
    for each in scales if isinstance(scales, (list, tuple)) else [scales]:
        if isinstance(each, Scales):
            folder = folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="kvcal-")) + os.sep
            words.append(f"{folder}kv-cache-scales{len(words) or ''}.json")
            with open(words[-1], "wb") as file:
                file.write(each.to_json())
        else:
            words.append(each.path if isinstance(each, kvcal.ScaleFile) else each)
    return words, folder


def _ended(words: List[str], stdin: Optional[IO[bytes]], stdout: Optional[IO[bytes]], hidden: str,
           quiet: bool) -> Optional[Error]:
    """Runs it; the exception for an exit code other than 0. What it says is shown where Python's errors go, without `hidden`, a
    folder of our own: lines with its name at the end, as they may be the reason; with its output unless that has a file."""
    child = started(words, stdin=stdin, stdout=stdout or subprocess.PIPE,
                    stderr=subprocess.PIPE if stdout else subprocess.STDOUT)
    held = []
    is_live = not quiet and shows_progress()
    try:
        with child.stderr or child.stdout as said:  # type: ignore[union-attr]
            for raw in said:
                line = raw.decode(errors="replace").rstrip("\n").replace(hidden or "\0", "")
                if line.startswith("{"):
                    show_progress(progress_text(json.loads(line)), is_live)
                elif _NAME.match(line):
                    held.append(line)
                else:
                    show_progress("", is_live)
                    print(line, file=sys.stderr)
        child.wait()
    except BaseException:  # KeyboardInterrupt above all; so interrupted, it removes what is half-written, and ends at once
        child.send_signal(signal.SIGINT)
        child.wait()
        raise
    finally:
        show_progress("", is_live)
    if child.returncode != 0:
        return error_of(child.returncode, held)
    for line in held:
        print(line, file=sys.stderr)
    return None


def started(words: List[str], **pipes: Any) -> "subprocess.Popen[bytes]":
    program = os.fspath(kvcal.program())
    try:
        return subprocess.Popen([program, *words], **pipes)
    except OSError as error:
        raise Error(f"'{program}': cannot be started: {error.strerror}; it comes with the wheel", 2) from None


def shows_progress() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def show_progress(progress: str, is_live: bool) -> None:
    """In a line that the next one replaces."""
    if is_live:
        print(f"\r{progress.ljust(_WIDTH)}\r", end="", file=sys.stderr, flush=True)


def progress_text(event: Dict[str, Any]) -> str:
    what = "answer" if "answer" in event else "layer"
    left = "" if event["seconds_left"] is None else f", {event['seconds_left']:.0f} s left"
    return f"{what} {event[what]} of {event['n_' + what + 's']}, {event['done']:.0%}{left}"


def error_of(code: int, held: List[str]) -> Error:
    lines = [line for line in held if line.startswith("kvcal: error: ")] or held
    line = "; ".join(_NAME.sub("", line, count=1) for line in lines) or f"exit code {code} without a reason"
    if code < 0:
        line = f"ended by {signal.Signals(-code).name}" + ("; is memory short?" if code == -signal.SIGKILL else "")
    return {1: Finding, 3: Undecided}.get(code, Error)(line, code)
