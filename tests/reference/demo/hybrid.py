"""The demo model in plain torch: the mathematics of Qwen3_5ForCausalLM on a dict of its parameters, in f32.

evaluate.py and train.py use it to measure, because a hook for quantised keys and values is one argument here; both
compare it with the reference framework first. Training itself runs the faster forward of fused.py.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from transformers import Qwen3_5TextConfig

CHUNK = 16  # of the delta rule: a power of two, so that (I + A)^-1 is four batched products, and short enough for f32
QuantiseKv = Callable[[int, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]  # layer, K, V -> K, V


def make_config(vocab_size: int, eos_token_id: int, pad_token_id: int) -> Qwen3_5TextConfig:
    return Qwen3_5TextConfig(
        vocab_size=vocab_size, hidden_size=96, intermediate_size=192, num_hidden_layers=8, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=2048, linear_conv_kernel_dim=4,
        linear_key_head_dim=32, linear_value_head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=eos_token_id, pad_token_id=pad_token_id,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
                         "mrope_section": [3, 3, 2], "mrope_interleaved": True})


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The zero-centred norm: the gain is 1 + weight."""
    x = x.float()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + weight)


def rope_tables(config: Qwen3_5TextConfig, n_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin, [n_tokens, rotary dims], both halves filled."""
    rotary = int(config.head_dim * config.rope_parameters["partial_rotary_factor"])
    inv_freq = config.rope_parameters["rope_theta"] ** (-torch.arange(0, rotary, 2).float() / rotary)
    angles = torch.arange(n_tokens).float()[:, None] * inv_freq
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates the first dims of every head as (i, i + half) pairs; the rest passes."""
    rotary = cos.shape[-1]
    turned, rest = x[..., :rotary], x[..., rotary:]
    half = torch.cat((-turned[..., rotary // 2:], turned[..., :rotary // 2]), -1)
    return torch.cat((turned * cos + half * sin, rest), -1)


def attention(p: dict, name: str, config: Qwen3_5TextConfig, x: torch.Tensor, tables, layer: int,
              quantise: QuantiseKv | None) -> torch.Tensor:
    """Gated softmax attention; x [batch, tokens, hidden]."""
    n_batch, n_tokens, _ = x.shape
    head_dim = config.head_dim
    q, gate = F.linear(x, p[name + "q_proj.weight"]).view(n_batch, n_tokens, -1, 2 * head_dim).chunk(2, -1)
    k, v = (F.linear(x, p[name + part]).view(n_batch, n_tokens, -1, head_dim)
            for part in ("k_proj.weight", "v_proj.weight"))
    q = rotate(rms_norm(q, p[name + "q_norm.weight"]).transpose(1, 2), *tables)
    k = rotate(rms_norm(k, p[name + "k_norm.weight"]).transpose(1, 2), *tables)
    v = v.transpose(1, 2)
    if quantise is not None:
        k, v = quantise(layer, k, v)
    group = config.num_attention_heads // config.num_key_value_heads
    k, v = (y.repeat_interleave(group, 1) for y in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out = out.transpose(1, 2) * torch.sigmoid(gate)
    return F.linear(out.reshape(n_batch, n_tokens, -1), p[name + "o_proj.weight"])


def delta_rule(q, k, v, log_decay, beta) -> torch.Tensor:
    """The gated delta rule in chunks; q, k [batch, heads, tokens, dk], v [..., dv], log_decay, beta [..., tokens]."""
    n_batch, n_heads, n_tokens, dk = q.shape
    n_chunks = n_tokens // CHUNK
    q, k, v = (x.reshape(n_batch * n_heads, n_chunks, CHUNK, -1) for x in (q, k, v))
    decay = log_decay.reshape(n_batch * n_heads, n_chunks, CHUNK).cumsum(-1)
    beta = beta.reshape(n_batch * n_heads, n_chunks, CHUNK, 1)
    causal = torch.ones(CHUNK, CHUNK, dtype=torch.bool).tril()
    pairwise = (decay.unsqueeze(-1) - decay.unsqueeze(-2)).masked_fill(~causal, float("-inf")).exp()
    k_t = k.transpose(-1, -2)
    a = -(((k * beta) @ k_t) * pairwise).tril(-1)
    one = torch.eye(CHUNK)
    a2 = a @ a
    a4 = a2 @ a2
    inverse = (one + a) @ (one + a2) @ ((one + a4) @ (one + a4 @ a4))  # of one - a, which is nilpotent
    grown = decay.exp().unsqueeze(-1)
    new_values = inverse @ (v * beta)
    old_values = inverse @ (k * beta * grown)
    within = (q @ k_t) * pairwise
    q_state = q * grown
    last = decay[..., -1:]
    k_state = (k * (last - decay).exp().unsqueeze(-1)).transpose(-1, -2)
    kept = last.exp().unsqueeze(-1)
    state = torch.zeros(n_batch * n_heads, dk, v.shape[-1])
    out = []
    for i in range(n_chunks):
        values = new_values[:, i] - old_values[:, i] @ state
        out.append(q_state[:, i] @ state + within[:, i] @ values)
        state = state * kept[:, i] + k_state[:, i] @ values
    return torch.stack(out, 1).reshape(n_batch, n_heads, n_tokens, -1)


def delta_net(p: dict, name: str, config: Qwen3_5TextConfig, x: torch.Tensor) -> torch.Tensor:
    """The recurrent mixer: projections, causal convolution, gated delta rule, gated norm."""
    n_batch, n_tokens, _ = x.shape
    nk, nv = config.linear_num_key_heads, config.linear_num_value_heads
    dk, dv = config.linear_key_head_dim, config.linear_value_head_dim
    mixed = F.pad(F.linear(x, p[name + "in_proj_qkv.weight"]), (0, 0, 3, 0))
    conv = p[name + "conv1d.weight"][:, 0]
    mixed = F.silu(sum(mixed[:, j:n_tokens + j] * conv[:, j] for j in range(4)))
    q, k, v = mixed.split([nk * dk, nk * dk, nv * dv], -1)
    q, k = (y.view(n_batch, n_tokens, nk, dk).transpose(1, 2) for y in (q, k))
    v = v.view(n_batch, n_tokens, nv, dv).transpose(1, 2)
    q, k = (y * torch.rsqrt((y * y).sum(-1, keepdim=True) + 1e-6) for y in (q, k))
    q, k = (y.repeat_interleave(nv // nk, 1) for y in (q * dk**-0.5, k))
    beta = F.linear(x, p[name + "in_proj_b.weight"]).sigmoid()
    step = F.softplus(F.linear(x, p[name + "in_proj_a.weight"]) + p[name + "dt_bias"])
    log_decay = -p[name + "A_log"].exp() * step
    out = delta_rule(q, k, v, log_decay.transpose(1, 2), beta.transpose(1, 2)).transpose(1, 2)
    z = F.linear(x, p[name + "in_proj_z.weight"]).view(n_batch, n_tokens, nv, dv)
    out = out * torch.rsqrt(out.pow(2).mean(-1, keepdim=True) + 1e-6) * p[name + "norm.weight"] * F.silu(z)
    return F.linear(out.reshape(n_batch, n_tokens, -1), p[name + "out_proj.weight"])


def forward(p: dict[str, torch.Tensor], config: Qwen3_5TextConfig, ids: torch.Tensor,
            quantise: QuantiseKv | None = None) -> torch.Tensor:
    """Normed hidden states [batch, tokens, hidden]; the number of tokens is a multiple of CHUNK."""
    tables = rope_tables(config, ids.shape[1])
    x = F.embedding(ids, p["model.embed_tokens.weight"])
    for i, kind in enumerate(config.layer_types):
        layer = f"model.layers.{i}."
        h = rms_norm(x, p[layer + "input_layernorm.weight"])
        if kind == "full_attention":
            x = x + attention(p, layer + "self_attn.", config, h, tables, i, quantise)
        else:
            x = x + delta_net(p, layer + "linear_attn.", config, h)
        h = rms_norm(x, p[layer + "post_attention_layernorm.weight"])
        gate, up = (F.linear(h, p[layer + f"mlp.{part}_proj.weight"]) for part in ("gate", "up"))
        x = x + F.linear(F.silu(gate) * up, p[layer + "mlp.down_proj.weight"])
    return rms_norm(x, p["model.norm.weight"])
