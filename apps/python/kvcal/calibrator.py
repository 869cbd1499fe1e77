"""Calibrates one model again and again while its weights change, as between the steps of reinforcement learning."""

import json
import operator
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import IO, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple, Union

import kvcal.verbs as verbs
from kvcal.results import Record, Scales, Written

Tensors = Mapping[str, Any]
_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64", "float8_e4m3fn": "F8_E4M3",
           "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16",
           "int32": "I32", "int64": "I64"}
_LONGEST_HEADER = 100_000_000  # of a safetensors file, as the format's own library limits it
# What json.load and a look into its result raise where a file has anything else.
_MALFORMED = (AttributeError, KeyError, RecursionError, TypeError, ValueError)


class MemberDifference(Record):
    member: str
    a: str
    b: str
    decides: bool


class SiteDifference(Record):
    layer: int
    site: str
    head: Optional[int]
    scale: List[float]
    ratio: float
    absmax: List[float]
    assessment: List[Dict[str, str]]
    verdict: List[str]
    overshoot: List[float]
    effect: str


class Difference(Written):
    """What `kvcal diff` prints; pairs are of the first file and the second. `within`: nothing that matters changed."""

    a: str
    b: str
    tolerance: float
    within: bool
    members: List[MemberDifference]
    sites: List[SiteDifference]

    def __repr__(self) -> str:
        return f"<Difference: {'within' if self.within else 'beyond'} {self.tolerance:.0%}, {len(self.sites)} sites>"


class _Place(NamedTuple):
    """A tensor in a safetensors file, and where its bytes are."""

    dtype: str
    shape: List[int]
    begin: int
    end: int


class _Update(NamedTuple):
    """A tensor with new values. They are taken when they are written: all at once may be more than memory holds."""

    dtype: str
    shape: List[int]
    n_bytes: int
    take: Callable[[], Any]


class Calibrator:
    """One process that stays: it keeps the prompts, the device, and as many layers' ends as memory has room for.

    >>> with kvcal.Calibrator("./model", prompts="chats.jsonl") as calibrator:
    ...     scales = calibrator.calibrate()
    ...     calibrator.refit({"model.layers.20.self_attn.k_proj.weight": tensor})  # or "./step-200", or a safetensors file
    ...     scales, drift = calibrator.calibrate(), calibrator.drift

    The scales have the bytes of `kvcal calibrate` of a checkpoint with these weights, whatever was kept. Options are
    those of kvcal.calibrate(). Tensors that are refitted from memory are written below `scratch`, into a copy of the
    shards that have them; /dev/shm spares the disk.
    """

    def __init__(self, model: verbs.Path, *, prompts: Union[None, verbs.Path, Iterable[verbs.Prompt]] = None,
                 scratch: Optional[verbs.Path] = None, **options: Any) -> None:
        for name in verbs.NOT_HERE.union(("check", "out", "if_changed")).intersection(options):
            raise TypeError(f"Calibrator() takes no {name}=")
        self.drift: Optional[Difference] = None  # from the scales before to the last ones, as `kvcal diff` says it
        self.layers_kept = 0  # of the last call: the layers that it did not have to run again
        self.seconds = 0.0  # of the last call
        self._model = _named(model)
        self._folder = os.getcwd()  # of paths in the options, when the process begins anew, too
        self._scales: Optional[Scales] = None
        self._child: Optional["subprocess.Popen[bytes]"] = None
        self._refits: IO[bytes]
        with ExitStack() as stack:
            self._prompts, self._stdin = verbs.prompt_words(prompts, stack)
            self._own = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvcal-", dir=scratch and os.path.abspath(scratch)))
            self._stack = stack.pop_all()
        self._options = dict(options, prompts=self._prompts, out=os.path.join(self._own, "kv-cache-scales.json"),
                             progress="json", json=True, quiet=True)
        self._is_live = not options.get("quiet") and verbs.shows_progress()

    def __enter__(self) -> "Calibrator":
        return self

    def __exit__(self, *reason: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process; what is temporary goes."""
        self._end()
        self._stack.close()

    def calibrate(self) -> Scales:
        """The scales of the weights as they are now. Raises kvcal.Error as kvcal.calibrate() does; the next call then
        begins anew."""
        began = time.monotonic()
        if self._child is not None and self._child.poll() is not None:
            self._end()
        try:
            if self._child is None:
                self._begin()
            else:
                with suppress(BrokenPipeError):  # it has just ended, and _result() says why
                    self._refits.write(os.fsencode(self._model) + b"\n")
            result = self._result()
        except BaseException:
            self._end()
            raise
        finally:
            verbs.show_progress("", self._is_live)
        with open(self._options["out"], "rb") as file:
            scales = Scales.from_json(file.read())
        self.drift = self._difference(scales) if self._scales is not None else None
        self._scales, self.layers_kept = scales, result["layers_kept"]
        self.seconds = time.monotonic() - began
        return scales

    def refit(self, weights: Union[verbs.Path, Tensors]) -> None:
        """Other weights: a checkpoint's folder, a safetensors file or {name: tensor of torch or numpy} with some or all
        tensors, by the names, dtypes and shapes that the checkpoint has. Raises ValueError, and changes nothing, for
        others. An lm_head.weight that the checkpoint does not have is left out: the head is tied."""
        if isinstance(weights, Mapping):
            return self._write({name: _update(name, tensor) for name, tensor in weights.items()})
        if os.path.isdir(weights):
            self._model = _named(weights)
            return None
        with open(weights, "rb") as file:
            self._write({name: _Update(at.dtype, at.shape, at.end - at.begin, partial(_part, file, at))
                         for name, at in _places(os.fspath(weights)).items()})

    def _begin(self) -> None:
        read, write = os.pipe()
        if self._scales is None:  # only what an interrupted call left of our own; what others wrote is not ours to replace
            with suppress(FileNotFoundError):
                os.remove(self._options["out"])
        force = self._options.get("force") or self._scales is not None
        words = ["calibrate", self._model, *verbs.option_words(dict(self._options, force=force, refits=f"/dev/fd/{read}"))]
        if self._stdin is not None:
            self._stdin.seek(0)
        self._refits = open(write, "wb", buffering=0)
        try:
            # In a session of its own: Ctrl-C of a cell that does something else is not meant for it.
            self._child = verbs.started(words, stdin=self._stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        pass_fds=(read,), cwd=self._folder, start_new_session=True)
        finally:
            os.close(read)

    def _result(self) -> Dict[str, Any]:
        """What --json prints, between lines of progress and warnings; or the failure of the process."""
        assert self._child is not None and self._child.stdout is not None
        held: List[str] = []
        text: List[str] = []
        for raw in self._child.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            if text or line == "{":
                text.append(line)
                if line == "}":
                    verbs.show_progress("", self._is_live)
                    for warning in held:
                        print(warning, file=sys.stderr)
                    return dict(json.loads("\n".join(text)))
            elif line.startswith("{"):
                verbs.show_progress(verbs.progress_text(json.loads(line)), self._is_live)
            else:
                held.append(line)
        raise verbs.error_of(self._child.wait(), held)

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            self._refits.close()
            child.terminate()  # a fork of this process may hold the pipe open
            child.communicate()

    def _difference(self, scales: Scales) -> Difference:
        for name, each in (("before", self._scales), ("after", scales)):
            with open(os.path.join(self._own, name), "wb") as file:
                file.write(each.to_json())  # type: ignore[union-attr]
        diff = verbs.started(["diff", "before", "after", "--json"], stdout=subprocess.PIPE, cwd=self._own)
        return Difference.from_json(diff.communicate()[0])

    def _write(self, updates: Dict[str, _Update]) -> None:
        folder, config = os.path.split(self._model) if os.path.isfile(self._model) else (self._model, "")
        shards = _weight_files(folder)
        places = _places_in(folder, shards)
        updates = {name: update for name, update in updates.items() if name in places or not name.endswith("lm_head.weight")}
        for name, update in updates.items():
            _check(name, update, places, folder)
        own = os.path.join(self._own, "model")
        if folder != own:
            _link(folder, own, shards)
        # All copies first: they are what a full disk refuses, and they change no value.
        for shard in {places[name][0] for name in updates}:
            _copy(os.path.join(own, shard))
        for name, update in updates.items():
            shard, place = places[name]
            with open(os.path.join(own, shard), "r+b") as file:
                file.seek(place.begin)
                file.write(update.take())
        self._model = os.path.join(own, config) if config else own


def _named(model: verbs.Path) -> str:
    """As the program is to have it: ids of the Hub are no paths, and each line of --refits is a name."""
    name = os.fspath(model)
    if "\n" in name or "\r" in name:
        raise ValueError(f"{name!r}: a model's name with a line break cannot be told to the process")
    return os.path.abspath(name) if os.path.exists(name) or name.startswith("-") else name


def _weight_files(folder: str) -> Set[str]:
    """By the rules of lib/checkpoint/weight_files.cpp, so that what is written is what the program reads."""
    if not os.path.isdir(folder):
        raise ValueError(f"refit: '{folder}' is not a folder; tensors need the folder of their checkpoint")
    names = sorted(os.listdir(folder))
    indexes = _candidates(names, ".safetensors.index.json", "consolidated")
    files = _candidates(names, ".safetensors", "consolidated", "adapter_model")
    if len(indexes) == 1:
        shards = _shards(os.path.join(folder, indexes[0]))
        if "model.safetensors" not in names or any(os.path.exists(os.path.join(folder, shard)) for shard in shards):
            return shards
    if len(indexes) > 1 or len(files) != 1:
        raise ValueError(f"refit: '{folder}' has {len(files)} safetensors files and {len(indexes)} indexes, expected one of either")
    return set(files)


def _candidates(names: List[str], suffix: str, *others: str) -> List[str]:
    usual = "model" + suffix
    return [usual] if usual in names else [name for name in names if name.endswith(suffix) and not name.startswith(others)]


def _shards(index: str) -> Set[str]:
    try:
        with open(index, encoding="utf-8") as file:
            shards = {os.path.normpath(name) for name in json.load(file)["weight_map"].values()}
    except _MALFORMED:
        raise ValueError(f"refit: '{index}' has no 'weight_map' of tensors to files") from None
    if any(os.path.isabs(shard) or shard.startswith("..") for shard in shards):
        raise ValueError(f"refit: '{index}' names files that are not inside its folder")
    return shards


def _places_in(folder: str, shards: Set[str]) -> Dict[str, Tuple[str, _Place]]:
    """By tensor: the shard that has it, and where."""
    places: Dict[str, Tuple[str, _Place]] = {}
    for shard in shards:
        for name, place in _places(os.path.join(folder, shard)).items():
            if name in places:
                raise ValueError(f"refit: '{folder}' has '{name}' in two files")
            places[name] = shard, place
    return places


def _places(path: str) -> Dict[str, _Place]:
    """By tensor of a safetensors file."""
    n_bytes = os.path.getsize(path)
    try:
        with open(path, "rb") as file:
            begin = 8 + int.from_bytes(file.read(8), "little")
            if begin > min(n_bytes, _LONGEST_HEADER):
                raise ValueError
            header = json.loads(file.read(begin - 8))
        header.pop("__metadata__", None)
        places = {name: _Place(tensor["dtype"], tensor["shape"], *(begin + operator.index(at) for at in tensor["data_offsets"]))
                  for name, tensor in header.items()}
        if not all(begin <= place.begin <= place.end <= n_bytes for place in places.values()):
            raise ValueError
    except _MALFORMED:
        raise ValueError(f"refit: '{path}' is not a whole safetensors file") from None
    return places


def _check(name: str, update: _Update, places: Mapping[str, Tuple[str, _Place]], folder: str) -> None:
    if name not in places:
        raise ValueError(f"refit: '{folder}' has no tensor '{name}'")
    place = places[name][1]
    there = place.dtype, place.shape, place.end - place.begin
    if update[:3] != there:
        here, there_too = ("{} {} of {} bytes".format(*each) for each in (update[:3], there))
        raise ValueError(f"refit: '{name}' is {here}, in the checkpoint {there_too}")


def _link(folder: str, to: str, shards: Set[str]) -> None:
    """Links to all that is in a folder. One to a subfolder with shards would have their copies land in the original."""
    shutil.rmtree(to, ignore_errors=True)
    for name in shards.union(set(os.listdir(folder)) - {shard.split(os.sep)[0] for shard in shards}):
        link = os.path.join(to, name)
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(os.path.join(folder, name), link)


def _copy(path: str) -> None:
    """A file in place of a link, unless it is one; whole from the first moment, as nothing tells later that it is not."""
    if not os.path.islink(path):
        return
    new = path + ".new"
    try:
        shutil.copyfile(path, new)
        os.replace(new, path)
    finally:
        with suppress(FileNotFoundError):
            os.remove(new)


def _part(file: IO[bytes], place: _Place) -> bytes:
    file.seek(place.begin)
    return file.read(place.end - place.begin)


def _update(name: str, tensor: Any) -> _Update:
    dtype = _DTYPES.get(str(getattr(tensor, "dtype", "")).rpartition(".")[2])
    if dtype is None:
        raise ValueError(f"refit: '{name}' is a {type(tensor).__name__} of a dtype that is not known, expected torch's or numpy's")
    return _Update(dtype, list(tensor.shape), tensor.nbytes, partial(_content, tensor))


def _content(tensor: Any) -> Any:
    if hasattr(tensor, "detach"):
        import torch
        return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    return tensor.tobytes()
