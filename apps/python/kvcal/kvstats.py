"""The statistics file, *.kvstats, as schemas/stats.v1.md describes it: dense counters in, bytes out. Needs NumPy alone.

Equal counters give equal bytes, and `kvcal merge` of one such file gives the same bytes again. What was not measured is
left empty: sampled attention, row formats, column norms. `kvcal solve` then goes by the histograms.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

FORMAT, VERSION = "kvcal-stats", "1.4"
_SEAL = "0" * 64  # in place of the SHA-256 of the file that has them
CODES = 0x8000  # a magnitude is its bf16 code without the sign
INFINITY = 0x7F80  # codes above are NaN
OCTAVES = 255  # code >> 7 of finite codes
BUCKETS = 64  # bucket 0 is position 0, bucket b positions 2^(b-1) to 2^b - 1
KINDS = 35  # of tokens: 5 * role + turn

_DTYPES = {"U8": "u1", "U16": "<u2", "BF16": "<u2", "F32": "<f4", "I64": "<i8", "U64": "<u8", "F64": "<f8"}


class StatisticsError(ValueError):
    """Why there are no statistics to write; one line."""


class Extent(NamedTuple):
    """Of a site."""

    heads: int
    width: int  # channels of a head
    pairs: int  # of channels, whose norms are kept


@dataclass(frozen=True)
class Layout:
    """One cache. `kind` "gqa" has keys and values, "mla" one row for all heads: latent_dim channels, then those with RoPE."""

    layer: int  # that owns it
    name: str  # its module without the checkpoint's prefix, "layers.3.self_attn"
    n_heads: int
    n_kv_heads: int
    head_dim_k: int
    head_dim_v: int
    softmax_scale: float
    kind: str = "gqa"
    rotary_dim: int = 0
    pair_bound: str = "none"  # which channels RoPE pairs: "neox", "gptj", or not known
    rope_magnitude: float = 1.0
    window: int = 0  # 0 = all positions
    latent_dim: int = 0
    learned_sinks: bool = False

    def sites(self) -> Dict[str, Extent]:
        pairs = 0 if self.pair_bound == "none" else self.rotary_dim // 2
        query = Extent(self.n_heads, self.head_dim_k, 0)
        if self.kind == "mla":
            rope = Extent(1, self.head_dim_k - self.latent_dim, pairs)
            return {"latent": Extent(1, self.latent_dim, 0), "rope": rope, "query": query}
        key = Extent(self.n_kv_heads, self.head_dim_k, pairs)
        return {"key": key, "value": Extent(self.n_kv_heads, self.head_dim_v, 0), "query": query}

    def to_json(self, cache: int) -> Dict[str, Any]:
        names = ("layer", "name", "kind", "n_heads", "n_kv_heads", "head_dim_k", "head_dim_v", "rotary_dim", "pair_bound",
                 "softmax_scale", "rope_magnitude", "window")
        block: Dict[str, Any] = {"cache": cache, **{name: getattr(self, name) for name in names}}
        if self.kind == "mla":
            block["latent_dim"] = self.latent_dim
        if self.learned_sinks:
            block["learned_sinks"] = True
        return block


@dataclass
class SiteCounts:
    """What was counted of one site. Every array is dense; `zeros()` makes them. m is the significand of a code:
    128 + (code & 127), or code & 127 in octave 0. Queries have Σ m² alone of the five by channel."""

    codes: np.ndarray  # int64 [heads, CODES]; zeros, infinities and NaNs as well
    token_octaves: np.ndarray  # int64 [heads, OCTAVES]: tokens by the octave of their largest finite magnitude
    where: np.ndarray  # int64 [heads, 6]: pass from 1, prompt, token, position, head, channel of the absmax
    position_absmax: np.ndarray  # uint16 [BUCKETS], codes
    prompt_absmax: np.ndarray  # uint16 [passes, prompts], codes
    channel_sum_m2: np.ndarray  # int64 [heads, width, OCTAVES]: Σ m²
    channel_sum_m: Optional[np.ndarray] = None  # Σ m
    channel_signed_sum_m: Optional[np.ndarray] = None  # Σ m with the sign of x
    channel_count: Optional[np.ndarray] = None  # values, zeros in octave 0
    channel_absmax: Optional[np.ndarray] = None  # uint16 [heads, width], codes
    pair_norm: Optional[np.ndarray] = None  # float64 [heads, pairs]
    kind_absmax: Optional[np.ndarray] = None  # uint16 [passes, KINDS], codes; None with the next: not told apart
    kind_tokens: Optional[np.ndarray] = None  # int64 [KINDS]
    n_tokens: int = 0  # rows seen

    @staticmethod
    def zeros(site: str, extent: Extent, n_prompts: int, n_passes: int = 1) -> "SiteCounts":
        heads, width, pairs = extent
        counts = SiteCounts(
            codes=np.zeros((heads, CODES), np.int64),
            token_octaves=np.zeros((heads, OCTAVES), np.int64),
            where=np.zeros((heads, 6), np.int64),
            position_absmax=np.zeros(BUCKETS, np.uint16),
            prompt_absmax=np.zeros((n_passes, n_prompts), np.uint16),
            channel_sum_m2=np.zeros((heads, width, OCTAVES), np.int64),
        )
        if site != "query":
            counts.channel_sum_m = np.zeros_like(counts.channel_sum_m2)
            counts.channel_signed_sum_m = np.zeros_like(counts.channel_sum_m2)
            counts.channel_count = np.zeros_like(counts.channel_sum_m2)
            counts.channel_absmax = np.zeros((heads, width), np.uint16)
        if pairs:
            counts.pair_norm = np.zeros((heads, pairs))
        return counts

    @property
    def absmax(self) -> np.ndarray:
        """[heads], codes: the largest finite one."""
        used = self.codes[:, :INFINITY] > 0
        return np.where(used.any(1), INFINITY - 1 - used[:, ::-1].argmax(1), 0).astype(np.uint16)


class Cache(NamedTuple):
    layout: Layout
    sites: Dict[str, SiteCounts]  # by the names of layout.sites()


@dataclass
class Run:
    """What a file says beside the numbers; the blocks are those of the scale file's schema."""

    model: Dict[str, Any]
    layers_without_kv: List[Dict[str, Any]]
    calibration: Dict[str, Any]  # tool_version says who measured
    prompt_ids: Sequence[str]  # ascending
    tokenizer_sha256: str = ""
    shard: Optional[Tuple[int, int]] = None  # index from 1, count
    heads: Optional[Dict[str, Any]] = None  # of one rank: rank, size, n_kv_heads of each cache in the whole model
    tags: Dict[str, List[int]] = field(default_factory=dict)  # prompts by tag, ascending
    n_passes: int = 1

    def to_json(self, caches: Sequence[Cache]) -> Dict[str, Any]:
        block = {"format": FORMAT, "version": VERSION, "model": self.model, "layers_without_kv": self.layers_without_kv,
                 "calibration": self.calibration, "plan_sha256": self.calibration["plan_sha256"],
                 "tokenizer_sha256": self.tokenizer_sha256, "n_passes": self.n_passes, "sanity": None}
        if self.shard:
            block["shard"] = {"index": self.shard[0], "count": self.shard[1]}
        if self.heads:
            block["heads"] = self.heads
        if self.tags:
            block["tags"] = sorted(self.tags)
        return {**block, "caches": [cache.layout.to_json(i) for i, cache in enumerate(caches)]}


class _Tensor(NamedTuple):
    name: str
    dtype: str
    data: np.ndarray


def _offsets(owners: np.ndarray, n_owners: int) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=n_owners))))


def _histogram(counts: SiteCounts) -> Iterator[_Tensor]:
    finite = counts.codes[:, 1:INFINITY]
    heads, codes = np.nonzero(finite)
    yield _Tensor("head_offsets", "U64", _offsets(heads, len(finite)))
    yield _Tensor("hist_index", "U16", codes + 1)
    yield _Tensor("hist_count", "U64", finite[heads, codes])
    yield _Tensor("absmax", "BF16", counts.absmax)
    yield _Tensor("zero", "U64", counts.codes[:, 0])
    yield _Tensor("inf", "U64", counts.codes[:, INFINITY])
    yield _Tensor("nan", "U64", counts.codes[:, INFINITY + 1 :].sum(1))
    for name in ("under", "over"):
        yield _Tensor(name, "U64", np.zeros(len(finite)))


def _channels(counts: SiteCounts) -> Iterator[_Tensor]:
    used = counts.channel_sum_m2 if counts.channel_count is None else counts.channel_count
    heads, channels, octaves = np.nonzero(used)
    yield _Tensor("channel_offsets", "U64", _offsets(heads * used.shape[1] + channels, used.shape[0] * used.shape[1]))
    yield _Tensor("channel_octave", "U8", octaves)
    for name in ("channel_count", "channel_sum_m", "channel_signed_sum_m", "channel_sum_m2"):
        table = getattr(counts, name)
        if table is not None:
            yield _Tensor(name, "I64", table[heads, channels, octaves])
    if counts.channel_absmax is not None:
        yield _Tensor("channel_absmax", "BF16", counts.channel_absmax)


def _maxima(counts: SiteCounts) -> Iterator[_Tensor]:
    heads, octaves = np.nonzero(counts.token_octaves)
    yield _Tensor("token_octaves", "U64", np.stack((heads, octaves, counts.token_octaves[heads, octaves]), axis=1))
    yield _Tensor("where", "I64", counts.where)
    yield _Tensor("position_absmax", "BF16", np.trim_zeros(counts.position_absmax, "b"))
    yield _Tensor("prompt_absmax", "BF16", counts.prompt_absmax)
    if counts.pair_norm is not None:
        yield _Tensor("pair_norm", "F64", counts.pair_norm)
    if counts.kind_absmax is not None and counts.kind_tokens is not None:
        yield _Tensor("kind_absmax", "BF16", counts.kind_absmax)
        yield _Tensor("kind_tokens", "U64", counts.kind_tokens)


def _not_measured(site: str) -> Iterator[_Tensor]:
    if site != "rope":
        yield _Tensor("sampled", "U64", np.zeros((0, 9)))
    if site != "query":
        yield _Tensor("row_formats", "U64", np.zeros((0, 6)))
    if site in ("key", "value"):
        yield _Tensor("row_formats_int4", "U64", np.zeros(0))
    if site in ("value", "latent"):
        yield _Tensor("column_norms", "F32", np.zeros(0))


def _site_tensors(site: str, counts: SiteCounts) -> Iterator[_Tensor]:
    yield _Tensor("n_tokens", "U64", np.array([counts.n_tokens]))
    for part in (_histogram(counts), _channels(counts), _maxima(counts), _not_measured(site)):
        yield from part


def _run_tensors(run: Run) -> Iterator[_Tensor]:
    ids = [text.encode() for text in run.prompt_ids]
    yield _Tensor("prompt_ids", "U8", np.frombuffer(b"".join(ids), np.uint8))
    yield _Tensor("prompt_offsets", "U64", np.cumsum([0, *map(len, ids)]))
    pairs = [(prompt, i) for i, tag in enumerate(sorted(run.tags)) for prompt in run.tags[tag]]
    if pairs:
        yield _Tensor("prompt_tags", "U64", np.array(pairs))


def _check(run: Run, caches: Sequence[Cache]) -> None:
    if not caches:
        raise StatisticsError("no layer has put anything into a cache")
    for cache in caches:
        for site, counts in cache.sites.items():
            if counts.n_tokens == 0:
                raise StatisticsError(f"layer {cache.layout.layer}, {site}: no token was seen")
    if list(run.prompt_ids) != sorted(set(run.prompt_ids), key=str.encode):
        raise StatisticsError("the prompt ids do not ascend, or one is there twice")


def check_finite(caches: Sequence[Cache]) -> None:
    """A file may hold infinities and NaNs; whoever solves scales from it should know first. Raises StatisticsError."""
    for cache in caches:
        for site, counts in cache.sites.items():
            heads = np.flatnonzero(counts.codes[:, INFINITY:].any(1))
            if heads.size:
                raise StatisticsError(f"layer {cache.layout.layer}, {site}, head {heads[0]}: infinity or NaN, expected "
                                      "finite values; is the checkpoint damaged, or is the model run in float16?")


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def encode(run: Run, caches: Sequence[Cache]) -> Iterator[bytes]:
    """The file, in parts. Raises StatisticsError where there is nothing to write."""
    _check(run, caches)
    tensors = list(_run_tensors(run))
    for i, cache in enumerate(caches):
        for site, counts in cache.sites.items():
            tensors += [t._replace(name=f"c{i}.{site}.{t.name}") for t in _site_tensors(site, counts)]
    header: Dict[str, Any] = {"__metadata__": {"kvcal": _dump(run.to_json(caches)), "kvcal_sha256": _SEAL}}
    parts, offset = [], 0
    for name, dtype, data in sorted(tensors, key=lambda t: t.name):
        parts.append(np.ascontiguousarray(data, _DTYPES[dtype]).tobytes())
        end = offset + len(parts[-1])
        header[name] = {"dtype": dtype, "shape": list(data.shape), "data_offsets": [offset, end]}
        offset = end
    text = _dump(header).encode()
    text += b" " * (-len(text) % 8)
    parts = [len(text).to_bytes(8, "little"), text, *parts]
    sealed = hashlib.sha256()
    for part in parts:
        sealed.update(part)
    key = b'"kvcal_sha256":"'
    parts[1] = text.replace(key + _SEAL.encode(), key + sealed.hexdigest().encode(), 1)
    yield from parts


def write(path: Union[str, "os.PathLike[str]"], run: Run, caches: Sequence[Cache], replace: bool = False) -> None:
    """Writes the whole file or nothing. Raises StatisticsError, also where the file exists and is not to be replaced."""
    target = Path(path)
    if target.exists() and not replace:
        raise StatisticsError(f"'{target}' exists already")
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.writelines(encode(run, caches))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
