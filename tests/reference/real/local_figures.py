"""What can be known of a layer without running the rest of the model: how rounding its cache moves attention there."""
import numpy as np

LEAST = 1e-30


def weights(q, k, scale):
    """-> log of the causal attention weights [tokens, tokens], -inf where nothing is seen"""
    x = q @ k.T * scale
    x[np.triu_indices(len(x), 1)] = -np.inf
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def divergence(exact, rounded):
    """-> mean over rows of KL"""
    p = np.exp(exact)
    d = np.where(p > 0, np.where(p > 0, rounded, 0) - np.where(p > 0, exact, 0), 0)
    return float((-(p * d).sum(-1)).mean())


def rms_ratio(d, y):
    return float(np.sqrt(((d * d).sum(-1) / np.maximum((y * y).sum(-1), LEAST)).mean()))


def figures(model, layer, x, spans, cached):
    """x [tokens, hidden]: the stream before the layer. cached(k, v): as the cache gives them back."""
    q, k, v = model.qkv(layer, x, spans)
    k2, v2 = cached(k, v)
    group, scale = model.heads // model.kv_heads, model.dim ** -.5
    o = model.of(layer, "self_attn.o_proj").reshape(-1, model.heads, model.dim)
    y, d = np.zeros_like(x), np.zeros_like(x)
    by_head = []
    for h in range(model.heads):
        kl, outputs, errors = [], [], []
        for a, b in spans:
            exact, rounded = (weights(q[a:b, h], z[a:b, h // group], scale) for z in (k, k2))
            kl.append(divergence(exact, rounded) * (b - a))
            outputs.append(np.exp(exact) @ v[a:b, h // group])
            errors.append(np.exp(rounded) @ v2[a:b, h // group] - outputs[-1])
        out, error = (np.concatenate(z) @ o[:, h].T for z in (outputs, errors))
        y += out
        d += error
        by_head.append({"kl": sum(kl) / len(x), "rel": rms_ratio(error, out)})
    return {**of_heads(by_head), **of_layer(x, y, d)}


def of_heads(heads):
    kl, rel = ([h[n] for h in heads] for n in ("kl", "rel"))
    return {"kl_mean": float(np.mean(kl)), "kl_worst": max(kl), "rel_head_worst": max(rel)}


def of_layer(x, y, d):
    after = x + y
    ratio = (d * d).sum(-1) / (after * after).sum(-1)
    return {"rel": rms_ratio(d, y), "rel_centered": rms_ratio(d - d.mean(0), y - y.mean(0)),
            "delta_on_stream": float(ratio.mean()), "delta_on_stream_median": float(np.median(ratio))}
