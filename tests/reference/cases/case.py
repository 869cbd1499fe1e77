"""What a case is, and what the families' cases are made of."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

SHORT = (7, 65, 130)  # sequence lengths: below, just above and twice a block of 64


@dataclass(frozen=True)
class Case:
    name: str
    model: str  # class name in transformers
    config: dict
    note: str
    lengths: tuple[int, ...] = SHORT
    full_sequence: int = 1  # index into lengths: the sequence whose whole tensors are kept
    full_layer: int = -1  # the layer whose Q, K, V are kept; -1: the last one that owns a cache
    published: Callable[[dict], dict] | None = None
    served: Callable[[dict], dict] | None = None  # the final config.json, where servers depart from the reference
    published_tensors: Callable[[dict], dict] | None = None  # the tensors as published, where servers read both forms
    served_tensors: Callable[[dict], dict] | None = None  # the final tensors: the same values in a form servers read
    f32_tensors: tuple[str, ...] = ()  # name endings stored as f32, as published hybrids do
    weights: Callable[[str, "Draw"], object] | None = None  # a family's own draws; None from it: the common rule
    close: bool = False  # routers of close_choices(): a router in f32 must be felt
    extra_tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)  # not part of the language model


def legacy_rope(*, scaling: dict | None) -> Callable[[dict], dict]:
    """config.json as written before rope_parameters existed: rope_theta and rope_scaling at the top."""

    def rewrite(config: dict) -> dict:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope["rope_theta"]
        config["rope_scaling"] = scaling
        config["torch_dtype"] = config.pop("dtype")
        return config

    return rewrite


def close_choices(name: str, draw):
    """Routers whose logits lie close together, far from zero: f32 tells them apart, bf16 often does not."""
    fan_in = draw.shape[-1] ** -0.5
    if name.endswith(("router.weight", "gate.weight", "gate.wg.weight")):
        return draw.normal(0.2 * fan_in) + draw.normal(3 * fan_in)[:1]
    if name.endswith("e_score_correction_bias"):
        return draw.uniform(-0.03, 0.03)
    return None


def twin_choices(name: str, draw):
    """Routers of twins: every second row differs from the one before in its first weight only, so little that in bf16
    most logits of twins are equal. In f32 the sign of one channel decides between them, which no rounding before turns."""
    if name.endswith("gate.weight"):
        rows = draw.normal(3 * draw.shape[-1] ** -0.5)
        rows[1::2] = rows[::2]
        rows[:, 0] = torch.tensor([0.0, 0.004]).repeat(len(rows) // 2)
        return rows
    if name.endswith("e_score_correction_bias"):
        return draw.uniform(-0.03, 0.03)[::2].repeat_interleave(2)
    return None


def rope(theta: float, **more) -> dict:
    return dict(dict(rope_type="default", rope_theta=theta), **more)


DENSE = dict(vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, bos_token_id=None, eos_token_id=2, pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
MROPE = dict(rope_type="default", mrope_interleaved=True)
