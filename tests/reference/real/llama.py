"""Llama in plain numpy, float32, from a folder of unpack.py; keys and values pass through a function on their way."""
import json

import ml_dtypes  # noqa: F401: gives numpy its bfloat16
import numpy as np
from safetensors.numpy import load_file


def rms_norm(x, gain, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def softmax_rows(x):
    x -= x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x


class Llama:
    def __init__(self, folder):
        c = json.loads((folder / "config.json").read_text())
        self.w = {n: t.astype(np.float32) for n, t in load_file(folder / "model.safetensors").items()}
        self.n_layers, self.heads, self.kv_heads = c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
        self.dim, self.eps, self.theta = c["hidden_size"] // c["num_attention_heads"], c["rms_norm_eps"], c["rope_theta"]

    def of(self, layer, name):
        return self.w[f"model.layers.{layer}.{name}.weight"]

    def embed(self, ids):
        return self.w["model.embed_tokens.weight"][ids]

    def turn(self, x, positions):
        """[tokens, heads, dim]"""
        half = self.dim // 2
        angle = positions[:, None] * self.theta ** (-np.arange(half) / half)
        c, s = np.cos(angle)[:, None].astype(np.float32), np.sin(angle)[:, None].astype(np.float32)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)

    def qkv(self, layer, x, spans):
        """What meets the cache: q [tokens, heads, dim], k and v [tokens, kv_heads, dim]; spans: [first, behind) of prompts."""
        h = rms_norm(x, self.of(layer, "input_layernorm"), self.eps)
        q, k, v = ((h @ self.of(layer, f"self_attn.{n}_proj").T).reshape(len(x), -1, self.dim) for n in "qkv")
        positions = np.concatenate([np.arange(b - a) for a, b in spans])
        return self.turn(q, positions), self.turn(k, positions), v

    def attend(self, q, k, v, spans):
        """-> [tokens, heads, dim]"""
        out = np.empty_like(q)
        group = self.heads // self.kv_heads
        for a, b in spans:
            mask = np.triu(np.full((b - a, b - a), -np.inf, np.float32), 1)
            for h in range(self.heads):
                p = softmax_rows(q[a:b, h] @ k[a:b, h // group].T * np.float32(self.dim ** -.5) + mask)
                out[a:b, h] = p @ v[a:b, h // group]
        return out

    def project(self, layer, heads):
        return heads.reshape(len(heads), -1) @ self.of(layer, "self_attn.o_proj").T

    def feed_forward(self, layer, x):
        h = rms_norm(x, self.of(layer, "post_attention_layernorm"), self.eps)
        gate, up = h @ self.of(layer, "mlp.gate_proj").T, h @ self.of(layer, "mlp.up_proj").T
        return x + (gate / (1 + np.exp(-gate)) * up) @ self.of(layer, "mlp.down_proj").T

    def layer(self, layer, x, spans, cached=None):
        """cached(k, v) -> the k and v that attention reads."""
        q, k, v = self.qkv(layer, x, spans)
        if cached:
            k, v = cached(k, v)
        return self.feed_forward(layer, x + self.project(layer, self.attend(q, k, v, spans)))

    def logits(self, x):
        return rms_norm(x, self.w["model.norm.weight"], self.eps) @ self.w["model.embed_tokens.weight"].T
