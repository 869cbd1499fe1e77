"""What the layers of a transformers model are, as a statistics file names it."""

from typing import Any, List, Tuple

import torch
from torch import Tensor, nn

from kvcal.kvstats import StatisticsError

# Words in the names of classes that mix tokens without a cache of keys and values, and their kinds in files.
_MIXERS = {"gateddeltanet": "gated_delta_net", "deltaattention": "kimi_delta_attention",
           "lightningattention": "lightning_attention", "shortconv": "short_conv"}
_OTHER_MIXERS = ("linear_attention", "conv", "mamba", "recurrent")  # words of config.layer_types
_NOTHING = ("mlp", "moe", "")  # where tokens are not mixed


def decoder_of(model: Any) -> nn.Module:
    """The language model in it."""
    if getattr(model.config, "is_encoder_decoder", False):
        raise StatisticsError(f"{type(model).__name__} is an encoder with a decoder, whose second cache is not read")
    return model.get_decoder() if hasattr(model, "get_decoder") else model


def text_config(model: Any) -> Any:
    return model.config.get_text_config(decoder=True)


def type_of(config: Any, layer: int) -> str:
    """The word of the config, "sliding_attention", or none."""
    types = getattr(config, "layer_types", None)
    return str(types[layer]) if types else ""


def window_of(config: Any, layer: int) -> int:
    """Of classes that leave it to the mask: of layers that the config says it is of, or of all."""
    return (getattr(config, "sliding_window", None) or 0) if type_of(config, layer) in ("sliding_attention", "") else 0


def blocks_of(decoder: nn.Module, n_layers: int) -> List[Tuple[str, nn.Module]]:
    """Name and module of each layer."""
    for name, module in decoder.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == n_layers:
            return [(f"{name}.{i}", block) for i, block in enumerate(module)]
    raise StatisticsError(f"{type(decoder).__name__} has no list of its {n_layers} layers")


def attention_name(decoder: nn.Module, attention: nn.Module, block: str) -> str:
    """Of an attention module, in its layer where several share it; without the prefix of what wraps the layers."""
    names = [name for name, module in decoder.named_modules(remove_duplicate=False) if module is attention]
    name = next((name for name in names if name.startswith(block + ".")), names[0])
    return name.removeprefix("model.")


def mixer_of(model: Any, layer: int, block: nn.Module) -> str:
    """What mixes tokens in a layer that put nothing into the cache."""
    for module in block.modules():
        decay = getattr(module, "A_log", None)
        if isinstance(decay, Tensor) and hasattr(module, "D"):
            return "mamba2" if decay.dim() == 1 else "mamba"  # one for each head, or for each channel and state
    classes = " ".join(type(module).__name__.lower() for module in block.modules())
    for word, kind in _MIXERS.items():
        if word in classes:
            return kind
    said = type_of(text_config(model), layer)
    if said in _OTHER_MIXERS:
        return said
    if said not in _NOTHING or "attention" in classes:
        raise StatisticsError(f"layer {layer}, {type(block).__name__}, has put nothing into the cache: has its class one of "
                              "its own?")
    return "feed_forward"


def rope_magnitude(decoder: nn.Module, layer_type: str) -> float:
    """What RoPE lengthens every pair by (yarn)."""
    for module in decoder.modules():
        for name in (f"{layer_type}_attention_scaling", "attention_scaling"):
            if hasattr(module, name):
                return float(getattr(module, name))
    return 1.0


def key_half(attention: Any, n_heads: int, like: Tensor) -> Tensor:
    """[heads, nope, rank] of kv_b_proj, however its weight is stored: what makes a head's key of the latent."""
    eye = torch.eye(attention.kv_lora_rank, dtype=like.dtype, device=like.device)
    rows = attention.kv_b_proj(eye).view(attention.kv_lora_rank, n_heads, -1)
    return rows[..., : attention.qk_nope_head_dim].permute(1, 2, 0).contiguous()


def image_tokens(config: Any) -> List[int]:
    """Ids that stand for rows of an encoder."""
    names = [f"{what}_token_{word}" for what in ("image", "video", "audio") for word in ("id", "index")]
    return [token for token in (getattr(config, name, None) for name in names) if isinstance(token, int)]
