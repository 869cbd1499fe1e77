"""Statistics of what a model puts into its KV cache while transformers runs it, on whatever device.

>>> with kvcal.torch.observe(model) as stats:
...     for text in texts:
...         model(**tokenizer(text, return_tensors="pt"))
>>> stats.save("run.kvstats")  # for kvcal solve, stats, validate, report, merge

Keys and values are taken where the model updates its cache, queries where it calls its attention function. A class whose
cache keeps MLA's latent row gives the row; of one that expands it before, the row is what its norm puts out. Padding does
not count.
"""

import json
import os
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import torch
import transformers
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.cache_utils import Cache as ModelCache

import kvcal
import kvcal.kvstats as kvstats
import kvcal.layers as layers
from kvcal.counting import SiteCounter
from kvcal.kvstats import Cache, Layout, StatisticsError
from kvcal.rotary import RotaryWatch, in_pairs
from kvcal.sequences import Batch, Feed, arguments_of

_PRECISIONS = {torch.bfloat16: "bf16", torch.float32: "f32", torch.float16: "f16"}


class Update(NamedTuple):
    """Of a layer's cache, not yet followed by its queries."""

    layer: int
    key: Tensor  # [batch, heads, tokens, channels]; of a latent cache the latent
    value: Tensor  # of a latent cache the part with RoPE


class Attention(NamedTuple):
    """A call of an attention function."""

    module: Any  # an nn.Module
    query: Tensor  # [batch, heads, tokens, channels], before the softmax scale
    key: Tensor
    options: Dict[str, Any]

    @property
    def scale(self) -> float:
        given = self.options.get("scaling")
        return float(self.query.shape[-1] ** -0.5 if given is None else given)

    def unscaled(self) -> "Attention":
        """Of a class that scales its queries before, with the scale where it belongs."""
        own = getattr(self.module, "scaling", 1.0)
        if self.scale != 1.0 or own == 1.0:
            return self
        return self._replace(query=self.query / own, options={**self.options, "scaling": own})


class LayerCounts:
    """The counters of one layer's cache."""

    def __init__(self, layout: Layout, reordered: bool, device: torch.device, dtype: torch.dtype):
        self.layout, self.reordered, self.precision = layout, reordered, _PRECISIONS.get(dtype, str(dtype))
        self.absorbing: Optional[Tensor] = None  # of MLA: [heads, nope, rank]
        self.counters = {site: SiteCounter(site, extent, layout.pair_bound, device)
                         for site, extent in layout.sites().items()}

    def add(self, site: str, x: Tensor, batch: Batch, n_prompts: int) -> None:
        """x: [batch, heads, tokens, channels]."""
        if (x.shape[0], x.shape[2]) != tuple(batch.shape):
            raise StatisticsError(f"layer {self.layout.layer}, {site}: {x.shape[0]} x {x.shape[2]} rows of a forward pass of "
                                  f"{batch.shape[0]} x {batch.shape[1]} tokens; cross attention is not read")
        if self.reordered and site in ("key", "rope", "query"):
            x = in_pairs(x, self.layout.latent_dim if site == "query" else 0, self.layout.rotary_dim)
        rows = x.transpose(1, 2).flatten(0, 1)
        kept = batch.kept.to(x.device)
        self.counters[site].add(rows if bool(batch.kept.all()) else rows[kept], batch.rows.to(x.device), n_prompts)

    def cache(self, n_prompts: int) -> Cache:
        return Cache(self.layout, {site: counter.counts(n_prompts) for site, counter in self.counters.items()})


class Observer:
    """What observe() gives: the counters, and the hooks that fill them while it is entered."""

    def __init__(self, model: Any, prompt_ids: Optional[Sequence[str]] = None):
        self.model, self.decoder = model, layers.decoder_of(model)
        self.config = layers.text_config(model)
        self.feed = Feed(prompt_ids, layers.image_tokens(model.config))
        self.counts: Dict[int, LayerCounts] = {}  # by the layer that owns a cache
        self._blocks = layers.blocks_of(self.decoder, self.config.num_hidden_layers)
        self._modules = {id(module) for module in self.decoder.modules()}
        self._rotary = RotaryWatch()
        self._normed: Dict[int, Tensor] = {}  # latents by the attention module whose norm made them
        self._readers: Dict[int, Set[int]] = {}  # of caches that several layers read
        self._waiting: Dict[int, List[Tuple[Attention, Dict[str, Tensor], Batch]]] = {}  # until the layer shows how it turns
        self._batch: Optional[Batch] = None  # of the forward pass that runs
        self._update: Optional[Update] = None
        self._returned: Dict[int, Tensor] = {}  # by layer: keys that the cache gave back; kept, so that addresses stay
        self._undo: List[Callable[[], Any]] = []

    # ------------------------------------------------------------------------------------------------------- hooks
    def start(self) -> None:
        before = self.model.register_forward_pre_hook(self._before, with_kwargs=True)
        after = self.model.register_forward_hook(self._after)
        self._undo += [before.remove, after.remove, self._rotary.stop]
        for module in self.decoder.modules():
            if hasattr(module, "kv_lora_rank"):
                self._watch_latents(module)
        self._rotary.start(self.decoder)
        self._replace(ModelCache, "update", self._tapped_update)
        self._replace(AttentionInterface, "get_interface", self._tapped_interface)
        generation = getattr(self.model, "generation_config", None)
        if generation is not None:  # a compiled forward pass calls no hook
            self._replace(generation, "disable_compile", lambda _: True)

    def stop(self) -> None:
        while self._undo:
            self._undo.pop()()
        self._batch = self._update = None
        self._returned.clear()
        self._normed.clear()

    def _watch_latents(self, attention: Any) -> None:
        def keep(norm: nn.Module, args: Any, output: Tensor) -> None:
            self._normed[id(attention)] = output.detach()

        self._undo.append(attention.kv_a_layernorm.register_forward_hook(keep).remove)

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        setattr(owner, name, make(original))
        self._undo.append(lambda: setattr(owner, name, original))

    def _before(self, model: nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Any, Dict[str, Any]]:
        self._batch, self._update = self.feed.begin(arguments_of(model, args, kwargs)), None
        self._returned.clear()
        return args, {**kwargs, "use_cache": True}  # what reaches no cache cannot be seen

    def _after(self, model: nn.Module, args: Any, output: Any) -> None:
        self._check_answered()
        self._batch = None
        self._returned.clear()
        self._normed.clear()

    def _tapped_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(cache: ModelCache, key: Tensor, value: Tensor, layer: int, *args: Any, **kwargs: Any) -> Any:
            if self._batch is None:
                return original(cache, key, value, layer, *args, **kwargs)
            self._check_answered()
            self.feed.remember(cache, self._batch)
            self._update = Update(layer, key.detach(), value.detach())
            returned = original(cache, key, value, layer, *args, **kwargs)
            self._returned[layer] = returned[0]
            return returned

        return update

    def _tapped_interface(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_interface(*args: Any, **kwargs: Any) -> Callable[..., Any]:
            function = original(*args, **kwargs)

            def attention(module: nn.Module, query: Tensor, key: Tensor, *rest: Any, **options: Any) -> Any:
                if self._batch is not None and id(module) in self._modules:
                    with torch.no_grad():
                        self._see(Attention(module, query.detach(), key, options).unscaled(), self._batch)
                return function(module, query, key, *rest, **options)

            return attention

        return get_interface

    def _check_answered(self) -> None:
        if self._update is not None:
            raise StatisticsError(f"layer {self._update.layer} of {type(self.model).__name__}: its queries do not pass "
                                  "transformers' attention interface")

    # ---------------------------------------------------------------------------------------------------- counting
    def _see(self, seen: Attention, batch: Batch) -> None:
        update, self._update = self._update, None
        layer = update.layer if update else self._owner_of(seen)
        stored = _stored(seen.module, update, self._normed.get(id(seen.module))) if update else {}
        self._waiting.setdefault(layer, []).append((seen, stored, batch))
        if layer not in self.counts and bool((batch.rows.token > 0).any()):  # the first token of a prompt does not turn
            self.counts[layer] = self._open(seen, layer, stored)
        self._rotary.calls.clear()
        if layer in self.counts:
            for waited in self._waiting.pop(layer):
                self._count(self.counts[layer], *waited)

    def _count(self, counts: LayerCounts, seen: Attention, stored: Dict[str, Tensor], batch: Batch) -> None:
        for site, x in {**stored, "query": _compared(seen, counts)}.items():
            counts.add(site, x, batch, len(self.feed.n_tokens))

    def _owner_of(self, seen: Attention) -> int:
        """Of the cache that a layer without an update of its own reads."""
        for layer, key in self._returned.items():
            if key.data_ptr() == seen.key.data_ptr():
                self._readers.setdefault(layer, {layer}).add(getattr(seen.module, "layer_idx", layer))
                return layer
        raise StatisticsError(f"{type(seen.module).__name__} reads keys that no cache gave back; cross attention is not read")

    def _open(self, seen: Attention, layer: int, stored: Dict[str, Tensor]) -> LayerCounts:
        turned = stored["rope" if "rope" in stored else "key"]
        pairing = self._rotary.pairing(turned)
        magnitude = self._rotary.magnitude(layers.rope_magnitude(self.decoder, layers.type_of(self.config, layer)))
        layout = Layout(
            layer=layer, name=layers.attention_name(self.decoder, seen.module, self._blocks[layer][0]),
            n_heads=seen.query.shape[1], n_kv_heads=turned.shape[1], softmax_scale=seen.scale,
            rotary_dim=pairing.rotary_dim, pair_bound=pairing.pair_bound,
            rope_magnitude=magnitude if pairing.rotary_dim else 1.0,
            window=int(seen.options.get("sliding_window") or layers.window_of(self.config, layer)),
            learned_sinks=seen.options.get("s_aux") is not None,
            **_widths(stored))
        return LayerCounts(layout, pairing.reordered, turned.device, turned.dtype)

    # ------------------------------------------------------------------------------------------------------ result
    def caches(self) -> List[Cache]:
        """All counters, on the host. Raises StatisticsError where a layer saw other tokens than were fed, or no numbers."""
        n_tokens = sum(self.feed.n_tokens)
        if self._waiting:
            raise StatisticsError("only first tokens of prompts were seen, which RoPE does not turn; feed longer prompts")
        if n_tokens == 0 or not self.counts:
            raise StatisticsError("the model has put nothing into a cache: was it run?")
        found = [self.counts[layer].cache(len(self.feed.n_tokens)) for layer in sorted(self.counts)]
        for cache in found:
            readers = len(self._readers.get(cache.layout.layer, [0]))
            for site, counts in cache.sites.items():
                expected = n_tokens * (readers if site == "query" else 1)
                if counts.n_tokens != expected:
                    raise StatisticsError(f"layer {cache.layout.layer}, {site}: {counts.n_tokens} tokens were seen, expected "
                                          f"{expected}")
        kvstats.check_finite(found)
        return found

    def layers_without_kv(self) -> List[Dict[str, Any]]:
        owners = {reader: layer for layer, readers in self._readers.items() for reader in readers}
        found: List[Dict[str, Any]] = []
        for i, (_, block) in enumerate(self._blocks):
            if i in self.counts:
                continue
            shared = {"kind": "attention", "shares_kv_with": owners[i]} if i in owners else None
            found.append({"index": i, **(shared or {"kind": layers.mixer_of(self.model, i, block)})})
        return found

    def save(self, path: Union[str, "os.PathLike[str]"], checkpoint: Optional[str] = None, replace: bool = False,
             **more: Any) -> None:
        """Writes the statistics file. `checkpoint` is the model's folder; default: where it was loaded from. Raises
        StatisticsError, and writes nothing, where nothing was seen or a value is not finite."""
        caches = self.caches()
        kvstats.write(path, self.run(checkpoint or self.model.name_or_path, **more), caches, replace)

    def run(self, checkpoint: Union[str, "os.PathLike[str]"], shard: Optional[Tuple[int, int]] = None,
            tags: Optional[Dict[str, List[int]]] = None, **described: Any) -> kvstats.Run:
        """What the file says beside the numbers; `described` replaces members of its block "calibration"."""
        model, tokenizer_sha256 = identity_of(checkpoint)
        model.update(n_layers=len(self._blocks), n_kv_layers=len(self.counts))
        calibration = {**self._calibration(), **described}
        return kvstats.Run(model, self.layers_without_kv(), calibration, self.feed.ids, tokenizer_sha256, shard=shard,
                           tags=tags or {})

    def _calibration(self) -> Dict[str, Any]:
        digest, n_tokens = self.feed.sha256(), self.feed.n_tokens
        versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
        calibration = {
            "prompts_sha256": digest, "plan_sha256": digest, "n_prompts": len(n_tokens), "n_tokens": sum(n_tokens),
            "longest": max(n_tokens), "max_length": max(n_tokens), "passes": 1,
            "precision": next(iter(self.counts.values())).precision,
            "isa": f"torch-{next(self.model.parameters()).device.type}",
            "tool_version": f"kvcal.torch {kvcal.__version__} ({versions})"}
        if self.feed.image_tokens.numel():
            calibration["encoder_tokens"] = self.feed.n_image_tokens
        return calibration


def _widths(stored: Dict[str, Tensor]) -> Dict[str, Any]:
    width = {site: x.shape[-1] for site, x in stored.items()}
    if "latent" not in width:
        return {"head_dim_k": width["key"], "head_dim_v": width["value"]}
    return {"kind": "mla", "latent_dim": width["latent"], "head_dim_v": width["latent"],
            "head_dim_k": width["latent"] + width["rope"]}


def _stored(module: Any, update: Update, normed: Optional[Tensor]) -> Dict[str, Tensor]:
    """What a server would store; `normed` [batch, tokens, rank] is the latent that MLA's norm has put out."""
    if normed is None:
        return {"key": update.key, "value": update.value}
    if update.key.shape[1] == 1 and update.key.shape[-1] == normed.shape[-1]:
        return {"latent": update.key, "rope": update.value}
    return {"latent": normed.unsqueeze(1), "rope": update.key[:, :1, :, module.qk_nope_head_dim :]}


def _compared(seen: Attention, counts: LayerCounts) -> Tensor:
    """What decoding compares with a row: of MLA the absorbed query."""
    if counts.layout.kind == "gqa":
        return seen.query
    if counts.absorbing is None:
        counts.absorbing = layers.key_half(seen.module, seen.query.shape[1], seen.query)
    nope = seen.module.qk_nope_head_dim
    absorbed = torch.einsum("bhtp,hpr->bhtr", seen.query[..., :nope], counts.absorbing)
    return torch.cat((absorbed, seen.query[..., nope:]), dim=-1)


def identity_of(checkpoint: Union[str, "os.PathLike[str]"]) -> Tuple[Dict[str, Any], str]:
    """The block "model" and tokenizer_sha256, from the program, whatever the class."""
    done = kvcal.run("inspect", checkpoint, "--identity", check=False)
    if done.returncode != 0:
        raise StatisticsError(f"'{checkpoint}' is no folder of a checkpoint; give save() one")
    identity = json.loads(done.stdout)
    return identity["model"], identity["tokenizer_sha256"]


@contextmanager
def observe(model: Any, prompt_ids: Optional[Sequence[str]] = None) -> Iterator[Observer]:
    """Counts what the forward passes of `model` put into its cache. Each row of a pass with a new cache is a prompt, called
    by the next of `prompt_ids` in ascending order, or by its number; passes with a known cache go on with its prompts."""
    observer = Observer(model, prompt_ids)
    observer.start()
    try:
        yield observer
    finally:
        observer.stop()
