"""What the reference framework computes with a folder: logits of all positions, and what its attention receives."""

import sys
from pathlib import Path

import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

import latent_rows

PRECISIONS = {"bf16": torch.bfloat16, "f32": torch.float32}


class NotRead(Exception):
    """The framework does not read a folder as it is."""


def load(architecture: str, folder: Path, precision: str, attention: str = "eager"):
    try:
        model, info = getattr(transformers, architecture).from_pretrained(
            folder, dtype=PRECISIONS[precision], attn_implementation=attention, experts_implementation="eager",
            output_loading_info=True)
    except Exception as e:
        raise NotRead(str(e).strip().splitlines()[0]) from e
    unexpected = {name for name in info["unexpected_keys"] if not name.startswith("mtp.")}
    if info["missing_keys"] or info["mismatched_keys"] or unexpected:
        raise NotRead(f"{len(info['missing_keys'])} keys missing, {len(info['mismatched_keys'])} mismatched, "
                      f"{len(unexpected)} unexpected, such as {sorted(unexpected | set(info['missing_keys']))[0]}")
    return model.eval()


def logits(model, sequences: list[list[int]]) -> list[torch.Tensor]:
    return [model(input_ids=torch.tensor([ids]), use_cache=False).logits[0] for ids in sequences]


class Capture:
    """An attention function that keeps what a server would cache: {(layer, site): [tokens, heads, width]} of the layers
    that own a cache. Then it does what the eager one does."""

    def __init__(self):
        self.sites: dict[tuple[int, str], torch.Tensor] = {}
        self.layer = -1  # that is running: a module that several layers share does not know

    def __call__(self, module, query, key, value, attention_mask, **kwargs):
        if latent_rows.is_latent(module):
            row, rank = latent_rows.sites(module, query, key)["latent"], module.kv_lora_rank
            self.sites |= {(self.layer, "latent"): row[..., :rank], (self.layer, "rope"): row[..., rank:]}
        elif not getattr(module, "is_kv_shared_layer", False):
            self.sites |= {(self.layer, site): x[0].transpose(0, 1).contiguous()
                           for site, x in (("key", key), ("value", value))}
        eager = sys.modules[type(module).__module__].eager_attention_forward
        return eager(module, query, key, value, attention_mask, **kwargs)


def cached(architecture: str, folder: Path, precision: str, ids: list[int]) -> dict[tuple[int, str], torch.Tensor]:
    capture = Capture()
    AttentionInterface.register("fold", capture)
    AttentionMaskInterface.register("fold", eager_mask)
    model = load(architecture, folder, precision, "fold")
    latent_rows.prepare(model)
    decoder = model.get_decoder()
    for i, block in enumerate(decoder.layers if hasattr(decoder, "layers") else decoder.model.layers):
        block.register_forward_pre_hook(lambda m, args, i=i: setattr(capture, "layer", i))
    model(input_ids=torch.tensor([ids]), use_cache=False)
    return capture.sites


def expanded(site: dict, shape: torch.Size) -> torch.Tensor:
    """The exponents of an entry of a record's sites, for each head and channel of [tokens, heads, width]."""
    exponents = torch.tensor(site["exponents"])
    if site["balance"] == "channel":
        return exponents.reshape(shape[1:])
    return exponents.reshape(-1, 1).expand(shape[1:])


def compare_caches(before: dict, after: dict, record: dict) -> list[str]:
    """Keys and values of the folded model against the original's times 2^e of the record's sites."""
    sites = {(site["layer"], site["site"]): site for site in record["sites"]}
    if sites.keys() != before.keys() or before.keys() != after.keys():
        return [f"sites {sorted(sites.keys() ^ before.keys())} are in the record or in the model only"]
    return [f"layer {place[0]}, {place[1]}: not the original's times 2^e" for place, site in sorted(sites.items())
            if not torch.equal(torch.ldexp(before[place].double(), expanded(site, before[place].shape)),
                               after[place].double())]
