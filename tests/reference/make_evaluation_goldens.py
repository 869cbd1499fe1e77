"""Makes the goldens of `evaluate`: what rounding the cache does to the predictions of the tiny golden checkpoints.

    python make_evaluation_goldens.py [CASE...]     (re)makes tests/evaluate/golden/<case>.json

The attention function registered here receives what a server writes to its cache, rounds it with the number formats of
ml_dtypes (cache_formats.py), and hands it to the reference's own attention. Format: tests/evaluate/golden/README.md.
"""

import argparse
import copy
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

import latent_rows
from arch.reference_run import layers_of
from cache_formats import BLOCK, LARGEST, TYPES, round_rows, turned
from cases import CASES
from json_lines import write_small_json
from make_arch_goldens import GOLDEN as CHECKPOINTS
from make_arch_goldens import load

GOLDEN = Path(__file__).resolve().parents[1] / "evaluate" / "golden"
SEQUENCES = 2  # the first ones of a checkpoint's golden
DIGITS = 6
NOISE = 5e-7  # of a row's absmax: what sums in another order may move a value by
TRIES = 40  # scales to choose from: the first at which no value lies so close to where rounding jumps

# What each is about.
MODELS = {"qwen3": "grouped heads", "deepseek_v3": "latent rows", "kimi_linear": "latent rows beside a recurrent state",
          "gemma4": "layers that read another's cache, windows", "mistral_window": "windows", "gemma2": "windows, soft cap",
          "gpt_oss": "windows, sinks", "qwen3_next": "gated attention beside a delta rule",
          "jamba": "attention beside Mamba"}
IN_BLOCKS = ("qwen3", "deepseek_v3", "gemma4", "mistral_window", "gpt_oss")
BLOCK_TOKENS = 4


# ------------------------------------------------------------------------------------------------ one forward pass
def jumps(x: np.ndarray, rounding: dict) -> list[int]:
    """Tokens of x [tokens, heads, channels] with a value that noise would round to another number."""
    if factor := rounding.get("turned"):
        return jumps(turned(x, factor), {key: value for key, value in rounding.items() if key != "turned"})
    absmax = np.abs(x).max(axis=-1, keepdims=True)
    noise = np.float32(NOISE) * absmax
    moved = np.abs(round_rows(x + noise, rounding) - round_rows(x - noise, rounding)) > 100 * noise
    return np.nonzero(moved.any(axis=(1, 2)))[0].tolist()


@dataclass
class RoundedCache:
    """The attention function. rounding: {layer that owns a cache: {site: as cache_formats.round_rows has it}}."""

    rounding: dict = field(default_factory=dict)
    absmax: dict = field(default_factory=dict)  # {layer: {site: [heads, channels]}} of all passes
    layer: int = -1  # that is running
    owners: dict = field(default_factory=dict)  # of this pass: where keys lie -> layer
    block: int = 0  # above 0: positions whose keys and values are read as they are until all of them are there
    away: bool = False  # nothing is rounded or looked at
    steady: int = 0  # tokens of this pass before the first that has a value where rounding jumps

    def start(self, n_tokens: int):
        self.owners.clear()
        self.steady = n_tokens

    def round(self, site: str, x: torch.Tensor, owner: int) -> torch.Tensor:
        """x [tokens, heads, channels] of the one sequence."""
        largest, sites = x.abs().amax(dim=0), self.absmax.setdefault(owner, {})
        sites[site] = torch.maximum(sites[site], largest) if site in sites else largest
        rounding = self.rounding.get(owner, {}).get(site)
        if not rounding:
            return x
        rows = x.contiguous().numpy()
        self.steady = min([self.steady, *jumps(rows, rounding)])
        return torch.from_numpy(round_rows(rows, rounding))

    def of_heads(self, site: str, x: torch.Tensor, owner: int) -> torch.Tensor:
        return self.round(site, x[0].transpose(0, 1), owner).transpose(0, 1)[None]

    def of_rows(self, module, query: torch.Tensor, key: torch.Tensor, owner: int) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values of all heads [1, heads, tokens, width], expanded from the rounded rows; rounded queries
        are absorbed ones, whose key is the row."""
        nope, rank = module.qk_nope_head_dim, module.kv_lora_rank
        sites = latent_rows.sites(module, query, key)
        row = self.round("latent", sites["latent"], owner)[:, 0]
        absorbed = self.round("query", sites["query"], owner)
        expanded = module.kv_b_proj(row[:, :rank]).view(len(row), query.shape[1], -1).transpose(0, 1)[None]
        if "query" in self.rounding.get(owner, {}):
            return absorbed.transpose(0, 1)[None], row.expand(1, query.shape[1], *row.shape), expanded[..., nope:]
        rope = row[:, rank:]
        if getattr(module.config, "rope_interleave", False):
            rope = torch.cat((rope[:, 0::2], rope[:, 1::2]), dim=-1)  # undoes latent_rows.in_pairs
        rope = rope.expand(1, query.shape[1], *rope.shape)
        return query, torch.cat((expanded[..., :nope], rope), dim=-1), expanded[..., nope:]

    def __call__(self, module, query, key, value, attention_mask, **kwargs):
        eager = sys.modules[type(module).__module__].eager_attention_forward
        if self.away:
            return eager(module, query, key, value, attention_mask, **kwargs)
        at = key.data_ptr()
        owner = self.owners[at] if getattr(module, "is_kv_shared_layer", False) else self.layer
        self.owners[at] = owner
        exact = key, value
        if latent_rows.is_latent(module):
            query, key, value = self.of_rows(module, query, key, owner)
        else:
            query, key, value = (self.of_heads(site, x, owner) for site, x in
                                 (("query", query), ("key", key), ("value", value)))
        if self.block == 0:
            return eager(module, query, key, value, attention_mask, **kwargs)
        outputs = []  # of all tokens, each time with the rows that the tokens of one block see
        for first in range(0, query.shape[2], self.block):
            seen = (torch.cat((x[:, :, :first], y[:, :, first:]), dim=2) for x, y in zip((key, value), exact))
            output, _ = eager(module, query, *seen, attention_mask, **kwargs)
            outputs.append(output[:, first:first + self.block])
        return torch.cat(outputs, dim=1), None


class Reference:
    """A golden checkpoint in the framework, in float32."""

    def __init__(self, name: str):
        self.cache = RoundedCache()
        AttentionInterface.register("golden", self.cache)
        AttentionMaskInterface.register("golden", eager_mask)
        folder = CHECKPOINTS / name
        self.model = load(next(case for case in CASES if case.name == name), folder, "f32")
        for i, block in enumerate(layers_of(self.model)):
            block.register_forward_pre_hook(lambda m, args, i=i: setattr(self.cache, "layer", i))
        self.sequences = json.loads((folder / "golden.json").read_text())["sequences"][:SEQUENCES]

    def run(self, rounding: dict) -> tuple[list[torch.Tensor], list[int]]:
        """Of each sequence: logits [tokens, vocab], and how many tokens are steady."""
        self.cache.rounding = rounding
        logits, steady = [], []
        for ids in self.sequences:
            self.cache.start(len(ids))
            logits.append(self.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0])
            steady.append(self.cache.steady)
        return logits, steady

    def steadiest(self, variant: Callable[[float], dict]) -> tuple[dict, list[torch.Tensor], list[int]]:
        """The variant whose scales are wider by so much that most tokens are steady, and its run."""
        best = None
        for i in range(TRIES):
            rounding = variant(1 + i / 100)
            if best and rounding == best[0]:
                break
            logits, steady = self.run(rounding)
            if best is None or sum(steady) > sum(best[2]):
                best = rounding, logits, steady
            if sum(steady) == sum(map(len, self.sequences)):
                break
        return best


# ------------------------------------------------------------------------------------------------ variants
def short(scale: float) -> float:
    """Few digits, the same float32 wherever they are read."""
    return float(f"{scale:.4g}")


def scales(per: str, largest: torch.Tensor, divisor: float) -> list[float]:
    """Of a tensor, its heads or their channels, from largest [heads, channels]."""
    parts = {"tensor": largest.reshape(1, -1), "head": largest, "channel": largest.reshape(-1, 1)}[per]
    return [short(float(x) / divisor) for x in parts.amax(dim=1)]


def at(name: str, per: str, wider: float, read: float = 1.0) -> Callable[[torch.Tensor], dict]:
    """Scales that are `wider` than those that just hold the largest; read back with `read` times those."""
    divisor = LARGEST[name] * (LARGEST["e4m3"] if name == "nvfp4" else 1.0) / wider

    def rounding(largest: torch.Tensor) -> dict:
        write = scales(per, largest, divisor)
        return {"format": name, "write": write, **({"read": [short(read * s) for s in write]} if read != 1.0 else {})}

    return rounding


def moved_by_means(name: str, wider: float) -> Callable[[torch.Tensor], dict]:
    """Means of either sign, of a third of a channel's largest number; scales for what is left."""

    def rounding(largest: torch.Tensor) -> dict:
        means = [short(float(x) / 3 * (-1) ** c) for c, x in enumerate(largest.flatten())]
        return {**at(name, "tensor", wider * 4 / 3)(largest), "means": means}

    return rounding


def turned_rows(name: str, wider: float) -> Callable[[torch.Tensor], dict]:
    """Turned, no number is larger than the square root of the width allows."""

    def rounding(largest: torch.Tensor) -> dict:
        together = largest.shape[-1] & -largest.shape[-1]
        factor = together ** 0.5 * 2.0 ** -(int(math.log2(together)) // 2)
        return {**at(name, "tensor", wider * factor * together ** 0.5)(largest), "turned": factor}

    return rounding


def variants_of(absmax: dict, every: bool) -> dict[str, Callable[[float], dict]]:
    """{name: its rounding, from how much wider scales are than need be}. Names: format, what has a scale of its own, what
    is special."""
    everything = ("query", "key", "value", "latent")
    owners, rows = sorted(absmax), "latent" in next(iter(absmax.values()))
    formats = [f for f in TYPES if f != "nvfp4" or not any(
        x.shape[1] % BLOCK for of_site in absmax.values() for site, x in of_site.items() if site != "query")]

    def everywhere(rounding: Callable[[torch.Tensor], dict], sites=everything[1:], layers=owners) -> dict:
        return {layer: {site: rounding(absmax[layer][site]) for site in sites if site in absmax[layer]} for layer in layers}

    found = {f"{f}_1.0": lambda wider, f=f: everywhere(lambda _: {"format": f, "write": [1.0]}) for f in formats}
    found |= {f"{f}_tensor": lambda wider, f=f: everywhere(at(f, "tensor", wider)) for f in formats}
    found |= {f"{f}_row": lambda wider, f=f: everywhere(lambda _: {"format": f}) for f in
              (("e4m3", "e4m3fnuz", "e5m2", "int8") if every else ("e4m3", "int8"))}
    found |= {f"int8_{per}": lambda wider, per=per: everywhere(at("int8", per, wider)) for per in ("head", "channel")}
    found["e4m3_head_narrow"] = lambda wider: everywhere(at("e4m3", "head", wider / 4))
    found["e4m3_head_reread"] = lambda wider: everywhere(at("e4m3", "head", wider, read=1.25))
    if every:
        found |= {f"{f}_affine": lambda wider, f=f: everywhere(moved_by_means(f, wider)) for f in ("e4m3", "nvfp4") if f in formats}
        found |= {f"{f}_rotated": lambda wider, f=f: everywhere(turned_rows(f, wider)) for f in ("e4m3", "nvfp4") if f in formats}
    if "nvfp4" in formats:
        found["nvfp4_reread"] = lambda wider: everywhere(at("nvfp4", "tensor", wider, read=1.25))
    found["e4m3_one_layer"] = lambda wider: everywhere(at("e4m3", "tensor", wider), layers=owners[-1:])
    found["int8_queries"] = lambda wider: everywhere(at("int8", "head", wider), everything)
    found["int8_only_queries"] = lambda wider: everywhere(at("int8", "head", wider), ("query",))
    if not rows:
        found["e4m3_keys"] = lambda wider: everywhere(at("e4m3", "tensor", wider), ("key",))
        found["e4m3_values"] = lambda wider: everywhere(at("e4m3", "tensor", wider), ("value",))
    return found


# ------------------------------------------------------------------------------------------------ figures
def digits(x) -> list[float]:
    return [float(f"{v:.{DIGITS}g}") for v in x.tolist()]


def log_probabilities(logits: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.double(), dim=-1)


def nll(logits: list[torch.Tensor], sequences: list[list[int]]) -> list[list[float]]:
    """Of the tokens that follow, so one value fewer than tokens."""
    of_next = [log_probabilities(x)[:-1].gather(1, torch.tensor(ids)[1:, None])[:, 0] for x, ids in zip(logits, sequences)]
    return [[round(-v, 6) for v in x.tolist()] for x in of_next]


def divergence(reference: torch.Tensor, variant: torch.Tensor) -> torch.Tensor:
    p, q = log_probabilities(reference), log_probabilities(variant)
    return (p.exp() * (p - q)).sum(dim=-1).clamp(min=0)


def other_top(reference: torch.Tensor, variant: torch.Tensor) -> list[int]:
    return (reference.argmax(dim=-1) != variant.argmax(dim=-1)).nonzero()[:, 0].tolist()


def golden_of(name: str) -> dict:
    reference = Reference(name)
    exact, _ = reference.run({})
    absmax = copy.deepcopy(reference.cache.absmax)

    def figures(logits: list[torch.Tensor]) -> dict:
        return {"kl": [digits(divergence(a, b)) for a, b in zip(exact, logits)],
                "other_top": [other_top(a, b) for a, b in zip(exact, logits)], "nll": nll(logits, reference.sequences)}

    def made(variant: str, at_width: Callable[[float], dict]) -> dict:
        rounding, logits, steady = reference.steadiest(at_width)
        return {"name": variant, "steady": steady, "layers": {str(layer): sites for layer, sites in rounding.items()},
                **figures(logits)}

    variants = variants_of(absmax, name in ("qwen3", "deepseek_v3"))
    golden = {"case": name, "note": MODELS[name], "made_by": Path(__file__).name,
            "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
            "ml_dtypes": ml_dtypes.__version__, "n_sequences": len(reference.sequences),
            "nll": nll(exact, reference.sequences), "variants": [made(*variant) for variant in variants.items()]}
    if name in IN_BLOCKS:
        reference.cache.block = BLOCK_TOKENS
        golden["in_blocks"] = {"keep_recent": BLOCK_TOKENS,
                               "variants": [made(v, variants[v]) for v in ("e4m3_head_narrow", "int8_tensor")]}
    return golden


def report(golden: dict) -> None:
    print(f"{golden['case']} ({golden['note']})")
    for variant in golden["variants"] + golden.get("in_blocks", {"variants": []})["variants"]:
        kl = np.concatenate(variant["kl"])
        print(f"  {variant['name']:18s} mean KL {kl.mean():9.2e}  largest {kl.max():9.2e}  "
              f"other top tokens {sum(map(len, variant['other_top'])):2d}, steady {sum(variant['steady']):2d} of {len(kl)}",
              flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="checkpoints (default: all)")
    options = parser.parse_args()
    if unknown := set(options.cases) - MODELS.keys():
        parser.error(f"unknown cases {sorted(unknown)}; there are {', '.join(MODELS)}")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in options.cases or MODELS:
        golden = golden_of(name)
        report(golden)
        write_small_json(GOLDEN / f"{name}.json", golden)


if __name__ == "__main__":
    main()
