"""Statistics of live traffic: what the server plug-ins count at the cache write of every n-th step, and write as *.kvstats.

Counters lie on the server's device, in tables that are made once; a recorded step adds to them and waits for nothing. After
some recorded steps, a window, the tables are copied to the host behind the step's own work, and a thread adds them up and
writes the file. A window is a "prompt" of the file, called by the time at which it began: there is no text in it.

Whatever goes wrong here ends the recording with a line in the log, never the server. Needs PyTorch and NumPy.
"""

import contextlib
import datetime
import hashlib
import json
import logging
import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import torch

import kvcal
import kvcal.kvstats as kvstats
from kvcal.kvstats import CODES, INFINITY, Extent, Layout, SiteCounts

log = logging.getLogger("kvcal.recorder")

MAX_HEADER_BYTES = 100_000_000
MAX_WINDOWS = 1024  # then neighbors become one
CHUNK_ELEMENTS = 1 << 20  # counted at once: what a recorded step needs beside the tables
SLOTS = 256  # octaves of a table: 255 takes what is not finite, and is not read
# Tokens of a window: with those of a last step, neither 512 channels of them overflow 32 bits, nor the lower of two sums.
MAX_TOKENS = 1 << 21
_COUNT, _NEGATIVE = 1 << 40, 1 << 32  # m² < 2^16, m < 2^8


class RecorderError(ValueError):
    """Why nothing is recorded; one line."""


@dataclass(frozen=True)
class Options:
    to: str  # the file; with several ranks "live.rank0of4.kvstats" for "live.kvstats"
    like: str  # statistics of the same checkpoint, such as calibrate --stats writes: which layers there are, and of which model
    every: int = 100  # steps: the first of them is recorded
    window: int = 100  # recorded steps before the file is written again

    def __post_init__(self) -> None:
        for name in ("to", "like"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise RecorderError(f"'{name}' is {getattr(self, name)!r}, expected a path")
        for name in ("every", "window"):
            if type(getattr(self, name)) is not int or not 1 <= getattr(self, name) <= 1 << 30:
                raise RecorderError(f"'{name}' is {getattr(self, name)!r}, expected a number of steps, 1 or more")


def read_record(path: str) -> Dict[str, Any]:
    """What a statistics file says beside the numbers."""
    try:
        with open(path, "rb") as file:
            n = int.from_bytes(file.read(8), "little")
            if n > MAX_HEADER_BYTES:
                raise ValueError(f"a header of {n} bytes")
            record = json.loads(json.loads(file.read(n))["__metadata__"]["kvcal"])
        if record["format"] != kvstats.FORMAT or not record["version"].startswith("1."):
            raise ValueError(f"format {record['format']!r} {record['version']!r}")
        if record["model"] is None or record["layers_without_kv"] is None or record["calibration"] is None:
            raise ValueError("it does not say which model it is of")
        return record
    except OSError as error:
        raise RecorderError(f"{path}: cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RecorderError(f"{path}: no statistics file to take the model from: {type(error).__name__}: {error}") from None


def layouts_of(record: Dict[str, Any]) -> List[Layout]:
    return [Layout(**{k: v for k, v in cache.items() if k in Layout.__dataclass_fields__}) for cache in record["caches"]]


class Heads(NamedTuple):
    """What the server built for a layer; heads are those of this rank."""

    n_heads: int
    n_kv_heads: int
    head_dim_k: int
    head_dim_v: int


@dataclass(frozen=True)
class Place:
    """Of this process among those that serve the model."""

    device: torch.device
    rank: int = 0
    size: int = 1  # of the tensor-parallel split
    replica: str = ""  # of several servers with one file name

    @property
    def part(self) -> str:
        parts = [self.replica, f"rank{self.rank}of{self.size}" if self.size > 1 else ""]
        return ".".join(filter(None, parts))


def start(given: Any, heads: Dict[int, Heads], fingerprint: Callable[[str, int], str], place: Place) -> "Recorder":
    """`given`: the options as the server got them. `heads`: of every layer that owns a cache. `fingerprint`: of the weights, from
    the prefix of their names and the number of layers. Raises RecorderError where nothing can be recorded."""
    if not isinstance(given, dict):
        raise RecorderError(f"the options are {given!r}, expected to, like, and perhaps every and window")
    if unknown := sorted(set(given) - set(Options.__dataclass_fields__)):
        raise RecorderError(f"unknown option {unknown[0]!r}, known are {', '.join(Options.__dataclass_fields__)}")
    options = Options(**{"to": None, "like": None, **given})
    record = read_record(options.like)
    model = record["model"]
    actual = fingerprint(model["tensor_prefix"], model["n_layers"])
    if actual != model["weights_fingerprint"]:
        raise RecorderError(f"{options.like} is of another model: its weights have the fingerprint "
                            f"{model['weights_fingerprint']}, the server's {actual}")
    layouts = layouts_of(record)
    for layout in layouts:
        if layout.layer not in heads:
            raise RecorderError(f"{options.like} has layer {layout.layer}, which keeps no KV cache in this process")
    if more := sorted(set(heads) - {layout.layer for layout in layouts}):
        raise RecorderError(f"{options.like} has no layer {more[0]}, which keeps a KV cache in this server")
    layouts = [of_rank(layout, heads[layout.layer], place.size) for layout in layouts]
    heads_of = {"rank": place.rank, "size": place.size, "n_kv_heads": [cache["n_kv_heads"] for cache in record["caches"]]}
    return Recorder(options, layouts, record, place.device, place.part, heads_of if place.size > 1 else None)


def of_rank(layout: Layout, heads: Heads, size: int) -> Layout:
    """Heads are cut evenly over ranks; where ranks outnumber KV heads, neighbors share one."""
    expected = Heads(layout.n_heads // size, max(1, layout.n_kv_heads // size), layout.head_dim_k, layout.head_dim_v)
    if layout.n_heads % size or heads != expected:
        raise RecorderError(f"layer {layout.layer}: the server has {heads} on this of {size} ranks, expected {expected}")
    return replace(layout, n_heads=heads.n_heads, n_kv_heads=heads.n_kv_heads)


class Tables:
    """Of one site, on the device."""

    def __init__(self, site: str, extent: Extent, layout: Layout, device: torch.device):
        heads, width, pairs = extent
        self.site, self.extent = site, extent

        def make(n: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(n, dtype=dtype, device=device)

        self.codes = make(heads * CODES, torch.int32)
        self.octaves = make(heads * SLOTS, torch.int32)
        self.place = make(heads, torch.int64)
        self.positions = make(kvstats.BUCKETS, torch.int32)
        self.squares = make(heads * width * SLOTS, torch.int64)
        self.sums = make(0 if site == "query" else heads * width * SLOTS, torch.int64)
        self.channels = make(0 if site == "query" else heads * width, torch.int32)
        self.norms = make(heads * pairs, torch.float64)
        # What values are looked up by: made here, so that a step makes none of them again.
        self._head = torch.arange(heads, device=device).view(1, heads)
        self._channel = torch.arange(heads * width, device=device).view(1, heads, width)
        self._inverse = (0xFFFF - torch.arange(width, device=device, dtype=torch.int32)).view(1, 1, width)
        self._one = torch.ones(1, dtype=torch.int32, device=device)
        self._powers = 1 << torch.arange(kvstats.BUCKETS - 1, device=device)
        neox = layout.pair_bound == "neox"
        self._pairs = (slice(0, pairs), slice(pairs, 2 * pairs)) if neox else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
        self.reset()

    def tables(self) -> List[torch.Tensor]:
        return [self.codes, self.octaves, self.place, self.positions, self.squares, self.sums, self.channels, self.norms]

    @property
    def n_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tables())

    def reset(self) -> None:
        for table in self.tables():
            table.zero_()
        self.place.fill_(-1)

    def add(self, x: torch.Tensor, positions: torch.Tensor) -> None:
        """x: [tokens, heads, width]; positions: [tokens], in their sequences."""
        rows = max(1, CHUNK_ELEMENTS // (self.extent.heads * self.extent.width))
        for begin in range(0, len(x), rows):
            self._add(x[begin : begin + rows].to(torch.bfloat16), positions[begin : begin + rows].to(torch.int64))

    def _add(self, x: torch.Tensor, positions: torch.Tensor) -> None:
        bits = x.view(torch.int16).to(torch.int32)
        codes = bits & 0x7FFF
        octaves = codes >> 7
        self._tally(self.codes, self._head.unsqueeze(2) * CODES + codes, self._one)
        m = (codes & 0x7F) | ((octaves > 0).to(torch.int32) << 7)
        slots = self._channel * SLOTS + octaves
        squares = (m * m).to(torch.int64)
        self._tally(self.squares, slots, squares if self.site == "query" else squares + _COUNT)
        finite = codes < INFINITY
        magnitudes = torch.where(finite, codes, -1)
        if self.site != "query":
            wide = m.to(torch.int64)
            self._tally(self.sums, slots, torch.where(bits < 0, wide * _NEGATIVE, wide))
            torch.maximum(self.channels, magnitudes.amax(0).flatten(), out=self.channels)
        if self.extent.pairs:
            self._add_pairs(torch.where(finite, x, 0).to(torch.float64))
        self._add_maxima(magnitudes, positions)

    @staticmethod
    def _tally(table: torch.Tensor, index: torch.Tensor, what: torch.Tensor) -> None:
        flat = index.flatten().to(torch.int64)
        table.scatter_add_(0, flat, what.expand(flat.shape) if what.numel() == 1 else what.flatten())

    def _add_pairs(self, x: torch.Tensor) -> None:
        a, b = (x[:, :, channels] for channels in self._pairs)
        torch.maximum(self.norms, (a * a + b * b).amax(0).flatten(), out=self.norms)

    def _add_maxima(self, magnitudes: torch.Tensor, positions: torch.Tensor) -> None:
        # Of equal magnitudes the smallest position, then the smallest channel: both are kept upside down.
        row = ((magnitudes << 16) | self._inverse).amax(2)  # [tokens, heads]
        largest = (row >> 16).clamp(min=0)
        self._tally(self.octaves, self._head * SLOTS + (largest >> 7), self._one)
        upside_down = (0xFFFFFFFF - positions).unsqueeze(1) << 16
        place = ((row >> 16).to(torch.int64) << 48) | upside_down | (row & 0xFFFF)
        torch.maximum(self.place, place.amax(0), out=self.place)
        buckets = torch.bucketize(positions, self._powers, right=True)
        self.positions.scatter_reduce_(0, buckets, largest.amax(1), "amax")


def add_tables(host: List[np.ndarray], site: str, extent: Extent, window: int, counts: SiteCounts) -> None:
    """Puts what Tables.tables() held, a window's, to what was counted before."""
    codes, octaves, place, positions, squares, sums, channels, norms = host
    heads, width, _ = extent
    before = counts.absmax.astype(np.int64)
    counts.codes += codes.reshape(heads, CODES)
    counts.token_octaves += octaves.reshape(heads, SLOTS)[:, :-1]
    squares = squares.reshape(heads, width, SLOTS)[:, :, :-1]
    counts.channel_sum_m2 += squares & (_COUNT - 1)
    if site != "query":
        positive, negative = ((part.reshape(heads, width, SLOTS)[:, :, :-1]) for part in (sums & (_NEGATIVE - 1), sums >> 32))
        counts.channel_count += squares >> 40
        counts.channel_sum_m += positive + negative
        counts.channel_signed_sum_m += positive - negative
        np.maximum(counts.channel_absmax, channels.reshape(heads, width).clip(min=0).astype(np.uint16), out=counts.channel_absmax)
    if counts.pair_norm is not None:
        np.maximum(counts.pair_norm, np.sqrt(norms.reshape(counts.pair_norm.shape)), out=counts.pair_norm)
    np.maximum(counts.position_absmax, positions.astype(np.uint16), out=counts.position_absmax)
    counts.prompt_absmax[0, window] = max(0, place.max() >> 48)
    for head in np.flatnonzero(place >= 0):
        code, position, channel = (int(part) for part in (place[head] >> 48, 0xFFFFFFFF - (place[head] >> 16 & 0xFFFFFFFF), 0xFFFF - (place[head] & 0xFFFF)))
        if counts.where[head, 0] == 0 or code > before[head]:  # of equals the earlier window
            counts.where[head] = (1, window, position, position, head, channel)


@dataclass
class _Copy:
    """A window on its way to the host."""

    began: datetime.datetime
    n_tokens: Dict[int, Dict[str, int]]  # by cache and site
    ready: Optional["torch.cuda.Event"]


class Recorder:
    """Of one rank. `step()` around each step; `add()` at the cache write; `close()` at the end."""

    def __init__(self, options: Options, layouts: List[Layout], record: Dict[str, Any], device: torch.device,
                 part: str = "", heads: Optional[Dict[str, Any]] = None):
        """`part` sets the file of a rank or replica apart from the others': "rank0of4"; `heads`: of kvstats.Run."""
        self.options, self.record, self._heads = options, record, heads
        self.active = False  # the step that runs is recorded
        self.positions: Optional[torch.Tensor] = None  # of its tokens; what comes beyond them is padding
        self._cache_of = {layout.layer: i for i, layout in enumerate(layouts)}
        self._tables = [{site: Tables(site, extent, layout, device) for site, extent in layout.sites().items()} for layout in layouts]
        self._host = [[torch.empty_like(t, device="cpu", pin_memory=device.type == "cuda") for t in tables.tables()]
                      for tables in self._all_tables()]
        self._caches = [kvstats.Cache(layout, {s: SiteCounts.zeros(s, e, MAX_WINDOWS) for s, e in layout.sites().items()})
                        for layout in layouts]
        self._windows: List[datetime.datetime] = []
        self._n_steps = self._n_recorded = 0
        self._window = options.window
        self._began: Optional[datetime.datetime] = None
        self._n_tokens: Dict[int, Dict[str, int]] = {}
        self._end = torch.zeros((), dtype=torch.int64, device=device)  # largest position, and one
        self._host_end = torch.zeros((), dtype=torch.int64, pin_memory=device.type == "cuda")
        self._thread: Optional[threading.Thread] = None
        self._said = ""  # what the log was last told of the file
        self._over = False
        target = Path(options.to)
        self.path = target.with_name(f"{target.stem}.{part}{target.suffix}") if part else target
        if not os.access(target.parent, os.W_OK):
            raise RecorderError(f"{target.parent}: not a folder that can be written to")

    def _all_tables(self) -> Iterator[Tables]:
        for sites in self._tables:
            yield from sites.values()

    @property
    def device_bytes(self) -> int:
        return sum(tables.n_bytes for tables in self._all_tables())

    def __str__(self) -> str:
        return f"every {self.options.every} steps into {self.path}, with {self.device_bytes / 1e6:.1f} MB on the device"

    @property
    def due(self) -> bool:
        """The next step is recorded: the server must run its Python, and replay no graph of the whole step."""
        return not self._over and self._n_steps % self.options.every == 0

    @contextlib.contextmanager
    def step(self, positions: Optional[torch.Tensor]) -> Iterator[None]:
        """Around a step; `positions` of its tokens, None where it has none (and is no step)."""
        self.active, self.positions = self.due and positions is not None, positions
        try:
            yield
        finally:
            recorded, self.active, self.positions = self.active, False, None
            self._n_steps += positions is not None
            if recorded and positions is not None:
                with self.guarded():
                    self._step_done(positions)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """What goes wrong ends the recording, not the server."""
        try:
            yield
        except Exception as error:
            self.active, self._over = False, True
            log.error("kv-cache-record: recording ends: %s: %s", type(error).__name__, error)

    def add(self, layer: int, **sites: Optional[torch.Tensor]) -> None:
        """Tensors [tokens, heads, width] by site, at the write of a layer's cache. Only in an active step."""
        with self.guarded():
            assert self.positions is not None
            cache = self._cache_of[layer]
            for site, x in sites.items():
                if x is None:
                    continue
                n = min(len(x), len(self.positions))
                self._tables[cache][site].add(x[:n], self.positions[:n])
                counted = self._n_tokens.setdefault(cache, {})
                counted[site] = counted.get(site, 0) + n

    def _step_done(self, positions: torch.Tensor) -> None:
        self._began = self._began or datetime.datetime.now(datetime.timezone.utc)
        self._n_recorded += 1
        torch.maximum(self._end, positions.max() + 1, out=self._end)
        n_tokens = max((n for sites in self._n_tokens.values() for n in sites.values()), default=0)
        if self._n_recorded >= self._window or n_tokens >= MAX_TOKENS:
            self._hand_over(must=n_tokens >= MAX_TOKENS)

    def _hand_over(self, must: bool = False) -> None:
        """Begins a new window, unless the thread is still busy with the one before: then this one grows."""
        if self._began is None or not self._n_tokens:
            return
        if self._thread is not None and self._thread.is_alive():
            if not must:
                return
            self._thread.join()  # 2 million tokens came faster than a file is written
        ready = None
        for tables, host in zip(self._all_tables(), self._host):
            for table, copy in zip(tables.tables(), host):
                copy.copy_(table, non_blocking=True)
            tables.reset()
        self._host_end.copy_(self._end, non_blocking=True)
        if self._host and self._host[0][0].is_pinned():
            ready = torch.cuda.Event()
            ready.record()
        copied = _Copy(self._began, self._n_tokens, ready)
        self._n_recorded, self._began, self._n_tokens = 0, None, {}
        self._thread = threading.Thread(target=self._take, args=(copied,), name="kv-cache-record", daemon=True)
        self._thread.start()

    def _take(self, copied: _Copy) -> None:
        with self.guarded():
            if copied.ready is not None:
                copied.ready.synchronize()
            self._add_window(copied)
            self._write()

    def _add_window(self, copied: _Copy) -> None:
        if len(self._windows) == MAX_WINDOWS:
            self._halve_windows()
        # The ids ascend, so two windows cannot have begun at the same microsecond.
        began = max(copied.began, self._windows[-1] + datetime.timedelta(microseconds=1)) if self._windows else copied.began
        self._windows.append(began)
        hosts = iter(self._host)
        for i, cache in enumerate(self._caches):
            for site, counts in cache.sites.items():
                host = [t.numpy() for t in next(hosts)]
                add_tables(host, site, cache.layout.sites()[site], len(self._windows) - 1, counts)
                counts.n_tokens += copied.n_tokens.get(i, {}).get(site, 0)

    def _halve_windows(self) -> None:
        self._windows = self._windows[::2]
        self._window *= 2
        for cache in self._caches:
            for counts in cache.sites.values():
                halves = counts.prompt_absmax.reshape(1, -1, 2).max(2)
                counts.prompt_absmax[:] = 0
                counts.prompt_absmax[:, : halves.shape[1]] = halves
                counts.where[:, 1] //= 2

    def run(self) -> Tuple[kvstats.Run, List[kvstats.Cache]]:
        """What the file will hold."""
        ids = [began.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for began in self._windows]
        digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()
        caches = [kvstats.Cache(c.layout, {s: replace(n, prompt_absmax=n.prompt_absmax[:, : len(ids)]) for s, n in c.sites.items()})
                  for c in self._caches]
        n_tokens = next(iter(caches[0].sites.values())).n_tokens
        longest = int(self._host_end)
        calibration = {**self.record["calibration"], "prompts_sha256": digest, "plan_sha256": digest, "n_prompts": len(ids),
                       "n_tokens": n_tokens, "longest": longest, "passes": 1,
                       "max_length": max(longest, self.record["calibration"]["max_length"]), "isa": "recorded",
                       "tool_version": f"kvcal {kvcal.__version__} recorder"}
        calibration.pop("merged", None)
        return kvstats.Run(self.record["model"], self.record["layers_without_kv"], calibration, ids,
                           self.record.get("tokenizer_sha256", ""), heads=self._heads), caches

    def _write(self) -> None:
        run, caches = self.run()
        try:
            kvstats.write(self.path, run, caches, replace=True)
            self._said = ""
        except (OSError, kvstats.StatisticsError) as error:  # the next window tries again
            reason = f"{self.path} cannot be written: {getattr(error, 'strerror', None) or error}"
            if reason != self._said:
                log.warning("kv-cache-record: %s; nothing is lost yet, the next window is written with it", reason)
            self._said = reason

    def close(self) -> None:
        """Writes what is left. Waits for the device."""
        if self._over:
            return
        with self.guarded():
            for _ in range(2):  # the window on its way, then the last
                if self._thread is not None:
                    self._thread.join()
                self._hand_over()
