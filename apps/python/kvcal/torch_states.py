"""What a model of transformers answers when a server stores its recurrent states in another format.

>>> with kvcal.torch_states.stored(model, "int8_per_row"):
...     model.generate(**inputs)  # or any benchmark

After each forward pass the states in the model's cache become what a server would load again: in a prompt at the end of its
pass, in decoding after each token. Formats, scales and places are those of `kvcal evaluate --state-dtype`.
"""

import inspect
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional

import kvcal.layers as layers
from kvcal.kvstats import StatisticsError
from kvcal.sequences import arguments_of, cache_in, tokens_in

TILE = 64  # rows that share a scale
_FLOATS = {"bf16": torch.bfloat16, "f16": torch.float16, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
_LARGEST = {"fp8_e4m3": 448.0, "fp8_e5m2": 57344.0, "int8": 127.0, "int16": 32767.0}  # of formats with scales
_STOCHASTIC = "f16_stochastic"
_SHARED = ("", "_per_head", "_per_tile", "_per_row")
FORMATS = ("bf16", "f16", _STOCHASTIC, *(name + per for name in _LARGEST for per in _SHARED))


# ------------------------------------------------------------------------------------------------------------ rounding
def rounded(state: Tensor, name: str, layer: int, passed: int) -> Tensor:
    """`state`, f32 [batch, heads, keys, values], as it is stored after `passed` tokens."""
    kind, _, per = name.partition("_per_")
    if kind == _STOCHASTIC:
        return _between_halves(state, layer, passed)
    if kind not in _LARGEST:
        return state.to(_FLOATS[kind]).float()
    largest = _LARGEST[kind]
    scale = _shared_absmax(state.abs().amax(dim=-2), per) / largest
    scale = torch.where(scale > 0, scale, 1.0).unsqueeze(-2)
    x = (state / scale).clamp(-largest, largest)
    return (x.to(_FLOATS[kind]).float() if kind in _FLOATS else x.round()) * scale


def _shared_absmax(absmax: Tensor, per: str) -> Tensor:
    """[batch, heads, values], of each row, to the largest of those that share a scale with it."""
    if per == "row":
        return absmax
    if per == "tile":
        n = absmax.shape[-1]
        tiles = functional.pad(absmax, (0, -n % TILE)).unflatten(-1, (-1, TILE)).amax(dim=-1)
        return tiles.repeat_interleave(TILE, dim=-1)[..., :n]
    return absmax.amax(dim=-1 if per == "head" else (-2, -1), keepdim=True).expand_as(absmax)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """int64 as if it had no sign, to the right."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mixed(x: Tensor) -> Tensor:
    """Output of splitmix64 whose state was x; int64 wraps as uint64 does."""
    x = x + (0x9E3779B97F4A7C15 - (1 << 64))
    x = (x ^ _shifted(x, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    x = (x ^ _shifted(x, 27)) * (0x94D049BB133111EB - (1 << 64))
    return x ^ _shifted(x, 31)


def _between_halves(x: Tensor, layer: int, passed: int) -> Tensor:
    """The neighbour in float16 below or above |x|: as 13 random bits say, added behind the last one that float16 has."""
    seed = _mixed(_mixed(torch.tensor([layer], device=x.device)) + passed)
    index = torch.arange(x[0].numel(), device=x.device).reshape(x[0].shape)  # the same in each sequence
    share = _shifted(_mixed(seed + index), 51).double() / 8192
    exact = x.abs().double()
    step = torch.exp2((torch.frexp(exact).exponent - 1).clamp(min=-14).double() - 10.0)
    return torch.copysign(torch.floor(exact / step + share) * step, x.double()).float()


# ---------------------------------------------------------------------------------------------------------- the model
class StoredStates:
    """What stored() gives: the hook that rounds, and how often it has."""

    def __init__(self, model: Any, name: str, every: int):
        if name not in FORMATS:
            raise StatisticsError(f"'{name}' is no format of a recurrent state; these are: {', '.join(FORMATS)}")
        if every < 1:
            raise StatisticsError(f"states cannot be stored after every {every} tokens, expected 1 or more")
        self.model, self.format, self.every = model, name, every
        self.n_passes = self.n_rounded = 0
        decoder = layers.decoder_of(model)
        self._blocks = layers.blocks_of(decoder, layers.text_config(model).num_hidden_layers)
        self._kinds: Dict[int, str] = {}  # of layers whose states were seen
        self._passed: "WeakKeyDictionary[Any, int]" = WeakKeyDictionary()
        self._undo: List[Callable[[], Any]] = []

    def start(self) -> None:
        self._undo.append(self.model.register_forward_hook(self._after, with_kwargs=True).remove)
        generation = getattr(self.model, "generation_config", None)
        if generation is not None:  # a compiled forward pass calls no hook
            before = generation.disable_compile
            generation.disable_compile = True
            self._undo.append(lambda: setattr(generation, "disable_compile", before))

    def stop(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _after(self, model: Any, args: Any, kwargs: Dict[str, Any], output: Any) -> None:
        given = arguments_of(model, args, kwargs)
        cache = cache_in(output) or cache_in(given)
        if cache is None:
            return  # nothing is stored, and no token will read it
        passed = self._passed.get(cache, 0) + tokens_in(given).shape[1]
        self._passed[cache] = passed
        states = states_of(cache)
        if not states:
            raise StatisticsError(f"the cache of {type(model).__name__}, a {type(cache).__name__}, has no recurrent state")
        self.n_passes += 1
        if passed % self.every:
            return
        with torch.no_grad():
            for layer, state in states.items():
                self._round(layer, state, passed)

    def check_seen(self) -> None:
        """Raises StatisticsError where no pass was seen: its figures would be those of unrounded states."""
        if self.n_passes == 0:
            raise StatisticsError(f"no forward pass of {type(self.model).__name__} with a cache was seen, so nothing was rounded: "
                                  "is a wrapper of it, a part of it, or what torch.compile made of it run instead?")

    def _round(self, layer: int, state: Tensor, passed: int) -> None:
        if state.dtype != torch.float32:
            raise StatisticsError(f"layer {layer} of {type(self.model).__name__} keeps its state in {state.dtype}, which "
                                  "rounds it already; load the model with dtype=torch.float32")
        by_head = self._by_head(layer, state)
        by_head.copy_(rounded(by_head, self.format, layer, passed))
        self.n_rounded += 1

    def _by_head(self, layer: int, state: Tensor) -> Tensor:
        """A view [batch, heads, keys, values]. Mamba's states have the channels of keys last; one without heads is one."""
        where = f"layer {layer} of {type(self.model).__name__}"
        if state.dim() not in (3, 4):
            raise StatisticsError(f"{where} keeps {list(state.shape)} numbers, which are no state of heads")
        if layer not in self._kinds:
            self._kinds[layer] = layers.mixer_of(self.model, layer, self._blocks[layer][1])
        kind = self._kinds[layer]
        keys_last = {"mamba": True, "mamba2": True, "gated_delta_net": False, "kimi_delta_attention": False,
                     "lightning_attention": False}.get(kind)
        if keys_last is None and self.format.endswith(("_per_tile", "_per_row")):
            raise StatisticsError(f"{where}, {kind}: which numbers of a state {list(state.shape)} share a scale in {self.format} "
                                  "is not known")
        by_head = state if state.dim() == 4 else state.unsqueeze(1)
        return by_head.transpose(-1, -2) if keys_last else by_head


def states_of(cache: Any) -> Dict[int, Tensor]:
    """{layer: state [batch, ...]} of what recurrent layers have put into a cache."""
    if hasattr(cache, "linear_cache"):
        return {i: state for i, state in enumerate(cache.linear_cache) if len(state)}
    found = {}
    for i, layer in enumerate(cache.layers):
        states = getattr(layer, "recurrent_states", None)
        for state in states.values() if isinstance(states, dict) else [states]:
            if isinstance(state, Tensor):
                found[i] = state
    return found


@contextmanager
def stored(model: Any, name: str, every: int = 1) -> Iterator[StoredStates]:
    """Rounds the recurrent states of `model` to the format `name`, one of FORMATS, after each of its forward passes that ends
    where a multiple of `every` tokens have passed since the cache was made. Raises StatisticsError for an unknown format, a
    cache without recurrent states, states that the model keeps in 16 bits, and at the end where no pass was seen."""
    states = StoredStates(model, name, every)
    states.start()
    try:
        yield states
    finally:
        states.stop()
    states.check_seen()


# ---------------------------------------------------------------------------------------------------------- comparison
@dataclass
class StateFigures:
    """Of one format over all predictions, those after the last token of a sequence left out."""

    format: str
    mean_kl: float  # nats, of the predictions with the state as it is from those with it rounded
    same_top_token: float
    kl_by_token: List[Tensor] = field(repr=False)  # of each sequence: float64 [tokens]


@torch.no_grad()
def compare(model: Any, sequences: Sequence[Sequence[int]], formats: Sequence[str], chunk: int = 1) -> List[StateFigures]:
    """Each sequence of token ids, with its states stored after every `chunk` of its tokens, against the same with them as
    they are. Tokens are fed one by one: some classes do not read a stored state in a longer pass."""
    if not sequences or min(map(len, sequences)) < 2:
        raise StatisticsError("sequences of two tokens or more are needed: of a token that follows there is a prediction")
    kl: List[List[Tensor]] = [[] for _ in formats]
    same: List[List[Tensor]] = [[] for _ in formats]
    for ids in sequences:
        exact = _predictions(model, ids, None, chunk)
        for i, name in enumerate(formats):
            found = _predictions(model, ids, name, chunk)
            kl[i].append((exact.exp() * (exact - found)).sum(-1))
            same[i].append((exact.argmax(-1) == found.argmax(-1)).double())
    return [StateFigures(name, float(torch.cat(k).mean()), float(torch.cat(s).mean()), k)
            for name, k, s in zip(formats, kl, same)]


def _predictions(model: Any, ids: Sequence[int], name: Optional[str], chunk: int) -> Tensor:
    """float64 [tokens - 1, vocabulary]: logarithms of probabilities."""
    device, cache, parts = model.get_input_embeddings().weight.device, None, []
    parameters = inspect.signature(model.forward).parameters
    takes_positions = "position_ids" in parameters
    name_of_cache = "cache_params" if "cache_params" in parameters else "past_key_values"
    with stored(model, name, chunk) if name else nullcontext():
        for passed, token in enumerate(ids):
            # Of some classes the framework counts positions by a layer that has none.
            where = {"position_ids": torch.tensor([[passed]], device=device)} if takes_positions else {}
            output = model(input_ids=torch.tensor([[token]], device=device), use_cache=True, **{name_of_cache: cache}, **where)
            cache = cache_in(output)
            parts.append(output.logits[0].double().log_softmax(-1))
    return torch.cat(parts)[:-1]
