"""Ling-2.5, which the reference framework does not have: DeepSeek-V3 as it has it, with lightning attention in place of the
latent one in all but the last layer of each group. What lightning attention computes is written here from what vLLM 0.33.0
(mamba/linear/bailing_linear_attn.py) and SGLang 0.5.23 (models/bailing_moe_linear.py) do, token by token, in float32."""

import math

import torch
import transformers
from torch import nn


def slopes(n_heads: int) -> torch.Tensor:
    """Of ALiBi, for any number of heads."""
    if n_heads & (n_heads - 1) == 0:
        return 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    below = 1 << (n_heads.bit_length() - 1)
    return torch.cat((slopes(below), slopes(2 * below)[::2][: n_heads - below]))


def normed(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def rotated(x: torch.Tensor, width: int, theta: float) -> torch.Tensor:
    """x [tokens, heads, channels]: the first `width` channels by position, pairs (i, i + width / 2)."""
    half = width // 2
    angles = torch.arange(x.shape[0])[:, None] * theta ** (-torch.arange(half) / half)
    sin, cos = angles.sin()[:, None], angles.cos()[:, None]
    a, b = x[..., :half], x[..., half:width]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, x[..., width:]), dim=-1)


class LightningAttention(nn.Module):
    def __init__(self, config, layer: int):
        super().__init__()
        self.config, self.heads, self.dim = config, config.num_attention_heads, config.lightning_head_dim
        inner = self.heads * self.dim
        self.query_key_value = nn.Linear(config.hidden_size, 3 * inner, bias=False)
        self.query_layernorm, self.key_layernorm = (transformers.models.llama.modeling_llama.LlamaRMSNorm(self.dim)
                                                    for _ in range(2))
        self.g_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.g_norm = transformers.models.llama.modeling_llama.LlamaRMSNorm(inner)
        self.dense = nn.Linear(inner, config.hidden_size, bias=False)
        self.share = 1 - layer / (config.num_hidden_layers - 1) + 1e-5

    def scan(self, q, k, v):
        """q, k, v [tokens, heads, channels] -> as v."""
        kept = torch.exp(-slopes(self.heads) * self.share)[:, None, None]
        state = torch.zeros(self.heads, self.dim, self.dim)
        rows = []
        for t in range(len(q)):
            state = kept * state + k[t, :, :, None] * v[t, :, None, :]
            rows.append((q[t, :, None, :] @ state)[:, 0] / math.sqrt(self.dim))
        return torch.stack(rows)

    def forward(self, hidden_states, **kwargs):
        c, x = self.config, hidden_states[0]
        qkv = self.query_key_value(x).float().view(len(x), 3, self.heads, self.dim)
        q, k = (rotated(normed(part, c.rms_norm_eps) * norm.weight.float(), c.lightning_rotary_dim, c.rope_parameters["rope_theta"])
                for part, norm in ((qkv[:, 0], self.query_layernorm), (qkv[:, 1], self.key_layernorm)))
        groups = self.scan(q, k, qkv[:, 2]).to(x.dtype).float().view(len(x), c.group_norm_size, -1)
        gated = normed(groups, c.rms_norm_eps).flatten(1) * self.g_norm.weight.float() * self.g_proj(x).float().sigmoid()
        return self.dense(gated.to(x.dtype))[None], None


class BailingLinearConfig(transformers.DeepseekV3Config):
    pass


class BailingMoeV2_5ForCausalLM(transformers.DeepseekV3ForCausalLM):
    config_class = BailingLinearConfig

    def __init__(self, config):
        super().__init__(config)
        for i, layer in enumerate(self.model.layers):
            if (i + 1) % config.layer_group_size:
                layer.self_attn = LightningAttention(config, i)
        self.post_init()


CLASSES = {"BailingMoeV2_5ForCausalLM": BailingMoeV2_5ForCausalLM}
