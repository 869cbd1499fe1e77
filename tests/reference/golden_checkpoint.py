"""Checkpoints of the goldens: random weights of sensible sizes, written as a Hugging Face folder."""

import json
import math
import zlib
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

import differing_layers
import lightning_layers
from cases import Case
from json_lines import write_json

ZERO_CENTRED = ("qwen3_next", "qwen3_5", "gemma", "vaultgemma", "minimax_m3", "step3p")  # model types whose norms multiply by 1 + w (except linear_attn.norm)


def class_of(name: str):
    """A class of the framework by its name; some configs of their own it runs as Llama, some are made of its layers."""
    own = {**differing_layers.CLASSES, **lightning_layers.CLASSES}
    if name in own:
        return own[name]
    if name in ("InternLM3ForCausalLM", "IQuestCoderForCausalLM"):
        config_class = getattr(transformers, name.replace("ForCausalLM", "Config"))
        return type(name, (transformers.LlamaForCausalLM,), dict(config_class=config_class))
    return getattr(transformers, name)


class Draw:
    """Random values of one weight; they depend on its name, its shape and the seed only."""

    def __init__(self, name: str, shape: torch.Size, seed: int):
        self.shape = shape
        self.generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))

    def normal(self, std: float) -> torch.Tensor:
        return torch.randn(self.shape, generator=self.generator) * std

    def uniform(self, low: float, high: float) -> torch.Tensor:
        return torch.rand(self.shape, generator=self.generator) * (high - low) + low


def draw(case: Case, name: str, shape: torch.Size, seed: int, zero_centred: bool) -> torch.Tensor:
    """A random weight of a size that is sensible for its role."""
    own = case.weights(name, Draw(name, shape, seed)) if case.weights else None
    if own is not None:
        return own
    source = Draw(name, shape, seed)
    normal, uniform = source.normal, source.uniform
    fan_in = 1 / math.sqrt(shape[-1])
    if name.endswith("A_log"):
        return uniform(0.1, 2.0).log()
    if name.endswith("dt_bias"):  # the inverse of softplus of a step between 0.01 and 0.5
        return uniform(math.log(0.01), math.log(0.5)).exp().expm1().log()
    if "visual." in name or name.startswith("mtp."):
        return normal(0.05)
    if name.endswith("norm.weight") or "layernorm" in name:
        centred = zero_centred and "linear_attn.norm" not in name
        return uniform(-0.5, 0.5) if centred else uniform(0.5, 1.5)
    if name.endswith(".bias"):
        return normal(0.3)
    if "conv1d" in name:
        weight = normal(0.4)
        weight[..., -1] += 0.5
        return weight
    if "embed_tokens" in name:
        return normal(1.0)
    if "mlp.gate.weight" in name:  # the router: far apart, so that roundings flip no expert
        return normal(3 * fan_in)
    if any(role in name for role in ("o_proj", "out_proj", "down_proj")):
        return normal(0.8 * fan_in)
    if any(role in name for role in ("q_proj", "k_proj", "lm_head")):
        return normal(1.5 * fan_in)
    return normal(fan_in)


def stored_tensors(model) -> dict[str, torch.Tensor]:
    """Parameters, and the buffers that checkpoints hold (the bias of a router's choice, a layer's factor)."""
    stored = ("e_score_correction_bias", "expert_bias", "layer_scalar")
    buffers = {name: b for name, b in model.named_buffers() if name.endswith(stored)}
    return {**dict(model.named_parameters()), **buffers}


def parameters_of(model) -> int:
    """Of the language model, each once, without the biases of routers' choices, which kvcal does not count."""
    decoder, head, config = model.get_decoder(), model.get_output_embeddings(), model.config.get_text_config()
    tensors = {**stored_tensors(decoder), "head": head.weight}
    if config.model_type == "zamba2":  # blocks are shared, though this framework unties them together with the head
        repeated = config.hybrid_layer_ids[config.num_mem_blocks:]
        tensors = {name: t for name, t in tensors.items()
                   if not name.startswith(tuple(f"layers.{i}.shared_transformer." for i in repeated))}
    distinct = {id(t): t for name, t in tensors.items() if not name.endswith(("score_correction_bias", "expert_bias"))}
    return sum(t.numel() for t in distinct.values())


def layers_of(model):
    decoder = model.get_decoder()
    if hasattr(decoder, "h"):
        return decoder.h
    return decoder.layers if hasattr(decoder, "layers") else decoder.model.layers


def config_of(case: Case):
    return class_of(case.model).config_class(**case.config)


def draw_all(case: Case, model, seed: int) -> None:
    zero_centred = model.config.model_type.startswith(ZERO_CENTRED)
    for name, tensor in stored_tensors(model).items():
        tensor.copy_(draw(case, name, tensor.shape, seed, zero_centred))


def rewrite_tensors(folder: Path, rewrite) -> None:
    tensors = rewrite(load_file(folder / "model.safetensors"))
    save_file({name: t.contiguous() for name, t in sorted(tensors.items())}, folder / "model.safetensors",
              metadata={"format": "pt"})


def write_checkpoint(case: Case, folder: Path, seed: int) -> None:
    """The model of one case as a Hugging Face folder: config.json and model.safetensors, bf16."""
    model = class_of(case.model)(config_of(case))
    zero_centred = model.config.model_type.startswith(ZERO_CENTRED)
    draw_all(case, model, seed)
    exact = {name: t.detach().clone() for name, t in stored_tensors(model).items()
             if name.endswith(case.f32_tensors or "-")}
    model.to(torch.bfloat16)
    for name, tensor in exact.items():
        stored_tensors(model)[name].data = tensor
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)

    extra = {name: draw(case, name, torch.Size(shape), seed, zero_centred).bfloat16()
             for name, shape in case.extra_tensors.items()}
    if exact or extra:
        rewrite_tensors(folder, lambda tensors: {**tensors, **extra})
    if case.published_tensors:
        rewrite_tensors(folder, case.published_tensors)
    if case.published:
        config = json.loads((folder / "config.json").read_text())
        write_json(folder / "config.json", case.published(config))
