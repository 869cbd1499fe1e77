"""One decoding step over a cache of a few rows, by functions of a server's source: what check_scale_use.py's servers share."""

import functools
import types

import torch
from own_functions import functions

N, HEADS, WIDTH = 16, 1, 64  # tokens, heads, their width
RANK, LATENT = 512, 576  # of MLA's rows: as wide as real ones, for backends go by the width


class Fields(types.SimpleNamespace):
    """An object whose fields that nobody set are nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def anything(*_args, **_kwargs):
    return None


def in_class(path, name, wanted, names):
    made = functions(path, [f"{name}.{method}" for method in wanted], names)
    return {method: made[f"{name}.{method}"] for method in wanted}


def bound(target, methods):
    for name, function in methods.items():
        setattr(target, name, functools.partial(function, target))
    return target


def rows(width=WIDTH):
    torch.manual_seed(0)
    return [torch.randn(n, HEADS, width).bfloat16() for n in (1, N, N)]


def attention(q, k, v, k_factor=1.0, v_factor=1.0):
    """One query over all rows; factors as a kernel takes them: a float, a tensor, or none."""
    k_factor, v_factor = (1.0 if f is None else float(torch.as_tensor(f).flatten()[0]) for f in (k_factor, v_factor))
    k, v = (x.float().reshape(len(x), -1) for x in (k, v))
    q = q.float().reshape(-1, k.shape[1])[:1]  # heads are alike
    return torch.softmax(q @ k.T * (k.shape[1]**-0.5 * k_factor), -1) @ v * v_factor


def verdict(q, k, v, stored, out):
    """By what lies in the cache, and by what came out of it."""
    right = attention(q, k, v)
    if not float((out.float().reshape(-1, v.shape[-1])[:1] - right).norm() / right.norm()) < 0.15:
        return "garbage"
    factor = float((k.float().reshape(N, -1) / stored.float().reshape(N, -1)).nanmedian())
    return "applied" if abs(factor - 1) > 0.1 else "unused"
