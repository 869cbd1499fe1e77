"""Calibrates one model again and again while its weights change, as between the steps of reinforcement learning."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack
from typing import IO, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

import kvcal
import kvcal.verbs as verbs
from kvcal.results import Record, Scales, Written

Tensors = Mapping[str, Any]
_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64", "float8_e4m3fn": "F8_E4M3",
           "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16",
           "int32": "I32", "int64": "I64"}


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
        self._model = os.path.abspath(model)
        self._scales: Optional[Scales] = None
        self._child: Optional["subprocess.Popen[bytes]"] = None
        self._refits: IO[bytes]
        with ExitStack() as stack:
            self._prompts, self._stdin = verbs.prompt_words(prompts, stack)
            self._own = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvcal-", dir=scratch))
            self._stack = stack.pop_all()
        self._options = dict(options, prompts=self._prompts, out=os.path.join(self._own, "kv-cache-scales.json"),
                             progress="json", json=True, quiet=True, force=True)
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
        try:
            if self._child is None:
                self._begin()
            else:
                self._refits.write(os.fsencode(self._model) + b"\n")
            result = self._result()
        except BaseException as reason:
            if self._child is not None and not isinstance(reason, Exception):
                self._child.send_signal(signal.SIGINT)
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
        others."""
        if isinstance(weights, Mapping):
            return self._write({name: _content(name, tensor) for name, tensor in weights.items()})
        if os.path.isdir(weights):
            self._model = os.path.abspath(weights)
            return None
        with open(weights, "rb") as file:
            places = _places(os.fspath(weights))
            self._write({name: (dtype, shape, _part(file, begin, end)) for name, (dtype, shape, begin, end) in places.items()})

    def _begin(self) -> None:
        read, write = os.pipe()
        words = ["calibrate", self._model, *verbs.option_words(dict(self._options, refits=f"/dev/fd/{read}"))]
        if self._stdin is not None:
            self._stdin.seek(0)
        self._refits = open(write, "wb", buffering=0)
        try:
            self._child = verbs.started(words, stdin=self._stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=(read,))
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
            child.wait()
            child.stdout.close()  # type: ignore[union-attr]

    def _difference(self, scales: Scales) -> Difference:
        names = [os.path.join(self._own, name) for name in ("before.json", "after.json")]
        for name, each in zip(names, (self._scales, scales)):
            with open(name, "wb") as file:
                file.write(each.to_json())  # type: ignore[union-attr]
        return Difference.from_json(kvcal.run("diff", *names, "--json", check=False).stdout.encode())

    def _write(self, tensors: Dict[str, Tuple[str, List[int], Any]]) -> None:
        shards = {path: _places(path) for path in _shards(self._model)}
        shard_of = {name: path for path, places in shards.items() for name in places}
        for name, (dtype, shape, _) in tensors.items():
            if name not in shard_of:
                raise ValueError(f"refit: '{self._model}' has no tensor '{name}'")
            there = shards[shard_of[name]][name]
            if (dtype, shape) != there[:2]:
                raise ValueError(f"refit: '{name}' is {dtype} {shape}, in the checkpoint {there[0]} {there[1]}")
        own = os.path.join(self._own, "model")
        if self._model != own:
            _link(self._model, own)
        for shard in {shard_of[name] for name in tensors}:
            path = os.path.join(own, os.path.basename(shard))
            if os.path.islink(path):
                source = os.path.realpath(path)
                os.unlink(path)
                shutil.copyfile(source, path)
            with open(path, "r+b") as file:
                for name, (_, _, content) in tensors.items():
                    if shard_of[name] == shard:
                        file.seek(shards[shard][name][2])
                        file.write(content)
        self._model = own


def _shards(folder: str) -> Iterator[str]:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
    return (os.path.join(folder, name) for name in names)


def _places(path: str) -> Dict[str, Tuple[str, List[int], int, int]]:
    """By tensor of a safetensors file: dtype, shape, and where its bytes begin and end in it."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: (info["dtype"], info["shape"], *(8 + length + offset for offset in info["data_offsets"]))  # type: ignore
            for name, info in header.items()}


def _link(folder: str, to: str) -> None:
    shutil.rmtree(to, ignore_errors=True)
    os.mkdir(to)
    for name in os.listdir(folder):
        os.symlink(os.path.join(folder, name), os.path.join(to, name))


def _part(file: IO[bytes], begin: int, end: int) -> bytes:
    file.seek(begin)
    return file.read(end - begin)


def _content(name: str, tensor: Any) -> Tuple[str, List[int], Any]:
    dtype = _DTYPES.get(str(getattr(tensor, "dtype", "")).rpartition(".")[2])
    if dtype is None:
        raise ValueError(f"refit: '{name}' is a {type(tensor).__name__} of a dtype that is not known, expected torch's or numpy's")
    shape = list(tensor.shape)
    if hasattr(tensor, "detach"):
        import torch
        return dtype, shape, tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    return dtype, shape, tensor.tobytes()
