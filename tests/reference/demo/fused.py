"""The training forward of the demo model: bf16 activations, the mixer, norms and gated units as C++ kernels.

Torch's own operators spend most of the time on a model this small in dispatch; fused.cpp is compiled on first use.
"""

import ctypes
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F

from hybrid import rms_norm, rope_tables, rotate

BF16 = torch.bfloat16


@cache
def library() -> ctypes.CDLL:
    source = Path(__file__).with_name("fused.cpp")
    target = Path(tempfile.mkdtemp(prefix="kvcal-fused-")) / "fused.so"
    subprocess.check_call([os.environ.get("CXX", "g++"), "-std=c++20", "-O3", "-march=native", "-ffast-math",
                           "-fopenmp", "-shared", "-fPIC", str(source), "-o", str(target)])
    return ctypes.CDLL(str(target))


def call(name: str, tensors, *sizes: int) -> None:
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
    getattr(library(), name)(*pointers, *[ctypes.c_int(size) for size in sizes])


class Mixer(torch.autograd.Function):
    """Projections [batch, tokens, qkv | z | b | a] to the gated, normed output of the delta rule."""

    @staticmethod
    def forward(ctx, projected, conv, a_log, dt_bias, norm, nk, nv):
        n_batch, n_tokens, _ = projected.shape
        conv = conv[:, 0].t().contiguous()
        out = torch.empty(n_batch, n_tokens, nv * norm.numel(), dtype=BF16)
        call("mixer_forward", (projected, conv, a_log, dt_bias, norm, out), n_batch, n_tokens, nk, nv)
        ctx.save_for_backward(projected, conv, a_log, dt_bias, norm)
        ctx.heads = nk, nv
        return out

    @staticmethod
    def backward(ctx, d_out):
        projected, conv, a_log, dt_bias, norm = ctx.saved_tensors
        d_projected = torch.empty_like(projected)
        d_conv, d_a_log, d_dt_bias, d_norm = (torch.zeros_like(t) for t in (conv, a_log, dt_bias, norm))
        call("mixer_backward", (projected, conv, a_log, dt_bias, norm, d_out.contiguous(), d_projected, d_conv, d_a_log,
                                d_dt_bias, d_norm), *projected.shape[:2], *ctx.heads)
        return d_projected, d_conv.t().unsqueeze(1), d_a_log, d_dt_bias, d_norm, None, None


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        x = x.contiguous()
        y = torch.empty(x.shape, dtype=BF16)
        call("rms_norm_forward", (x, weight, y), x.numel() // x.shape[-1], x.shape[-1])
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dx, d_weight = torch.empty_like(x), torch.zeros_like(weight)
        call("rms_norm_backward", (x, weight, dy.contiguous(), dx, d_weight), x.numel() // x.shape[-1], x.shape[-1])
        return dx, d_weight


class GatedUnit(torch.autograd.Function):
    """silu(gate) * up of [..., gate | up]."""

    @staticmethod
    def forward(ctx, x):
        y = torch.empty(*x.shape[:-1], x.shape[-1] // 2, dtype=BF16)
        call("gated_unit_forward", (x, y), y.numel() // y.shape[-1], y.shape[-1])
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, = ctx.saved_tensors
        dx = torch.empty_like(x)
        call("gated_unit_backward", (x, dy.contiguous(), dx), x.numel() // x.shape[-1], x.shape[-1] // 2)
        return dx


def joined(p: dict, name: str, parts: tuple[str, ...]) -> torch.Tensor:
    """Several projections of one input as one bf16 matrix."""
    return torch.cat([p[name + part] for part in parts]).to(BF16)


def attention(p: dict, name: str, config, x: torch.Tensor, tables) -> torch.Tensor:
    n_batch, n_tokens, _ = x.shape
    heads, kv_heads, head_dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    weight = joined(p, name, ("q_proj.weight", "k_proj.weight", "v_proj.weight"))
    q, k, v = F.linear(x, weight).split([2 * heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], -1)
    q, gate = q.view(n_batch, n_tokens, heads, 2 * head_dim).chunk(2, -1)
    k, v = (y.view(n_batch, n_tokens, kv_heads, head_dim) for y in (k, v))
    q = rotate(rms_norm(q, p[name + "q_norm.weight"]), *tables)
    k = rotate(rms_norm(k, p[name + "k_norm.weight"]), *tables)
    k, v = (y.repeat_interleave(heads // kv_heads, 2).transpose(1, 2) for y in (k, v.float()))
    out = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, is_causal=True)
    out = out.transpose(1, 2) * torch.sigmoid(gate.float())
    return F.linear(out.reshape(n_batch, n_tokens, -1).to(BF16), p[name + "o_proj.weight"].to(BF16))


def delta_net(p: dict, name: str, config, x: torch.Tensor) -> torch.Tensor:
    weight = joined(p, name, tuple(f"in_proj_{part}.weight" for part in ("qkv", "z", "b", "a")))
    out = Mixer.apply(F.linear(x, weight), p[name + "conv1d.weight"], p[name + "A_log"], p[name + "dt_bias"],
                      p[name + "norm.weight"], config.linear_num_key_heads, config.linear_num_value_heads)
    return F.linear(out, p[name + "out_proj.weight"].to(BF16))


def loss(p: dict, config, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted mean cross-entropy of the next token."""
    tables = [t[:, None] for t in rope_tables(config, ids.shape[1])]
    x = F.embedding(ids, p["model.embed_tokens.weight"])
    for i, kind in enumerate(config.layer_types):
        layer = f"model.layers.{i}."
        h = RmsNorm.apply(x, p[layer + "input_layernorm.weight"])
        if kind == "full_attention":
            x = x + attention(p, layer + "self_attn.", config, h, tables)
        else:
            x = x + delta_net(p, layer + "linear_attn.", config, h)
        h = RmsNorm.apply(x, p[layer + "post_attention_layernorm.weight"])
        h = GatedUnit.apply(F.linear(h, joined(p, layer + "mlp.", ("gate_proj.weight", "up_proj.weight"))))
        x = x + F.linear(h, p[layer + "mlp.down_proj.weight"].to(BF16))
    hidden = RmsNorm.apply(x, p["model.norm.weight"])[:, :-1].reshape(-1, config.hidden_size)
    logits = F.linear(hidden, p["model.embed_tokens.weight"].to(BF16)).float()
    weights = weights[:, 1:].reshape(-1)
    return (F.cross_entropy(logits, ids[:, 1:].reshape(-1), reduction="none") * weights).sum() / weights.sum()
