"""What can be known of a layer without running the rest of the model: how rounding its cache moves attention there."""
import numpy as np

LEAST = 1e-30


def weights(q, k, scale):
    """-> log of the causal attention weights [tokens, tokens], -inf where nothing is seen"""
    x = q @ k.T * scale
    x[np.triu_indices(len(x), 1)] = -np.inf
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def moved(exact, rounded):
    """-> mean over rows of KL; mean weighted variance of what the logits moved by."""
    p = np.exp(exact)
    d = np.where(p > 0, np.where(p > 0, rounded, 0) - np.where(p > 0, exact, 0), 0)
    mean = (p * d).sum(-1, keepdims=True)
    return float((-(p * d).sum(-1)).mean()), float((p * (d - mean) ** 2).sum(-1).mean())


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
        kl, variance, outputs, errors = [], [], [], []
        for a, b in spans:
            exact, rounded = (weights(q[a:b, h], z[a:b, h // group], scale) for z in (k, k2))
            row = moved(exact, rounded)
            kl.append(row[0] * (b - a))
            variance.append(row[1] * (b - a))
            outputs.append(np.exp(exact) @ v[a:b, h // group])
            errors.append(np.exp(rounded) @ v2[a:b, h // group] - outputs[-1])
        out, error = (np.concatenate(z) @ o[:, h].T for z in (outputs, errors))
        y += out
        d += error
        n = len(x)
        by_head.append({"kl": sum(kl) / n, "variance": sum(variance) / n, "rel": rms_ratio(error, out),
                        "energy": float((out * out).sum(-1).mean()), "error": float((error * error).sum(-1).mean())})
    return {**of_heads(by_head), **of_layer(x, y, d)}


def of_heads(heads):
    energy = np.array([h["energy"] for h in heads])
    share = energy / energy.sum()
    kl, rel = (np.array([h[n] for h in heads]) for n in ("kl", "rel"))
    return {"kl_mean": float(kl.mean()), "kl_worst": float(kl.max()), "kl_by_energy": float((kl * share).sum()),
            "logit_variance": float(np.mean([h["variance"] for h in heads])), "rel_head_worst": float(rel.max()),
            "rel_head_mean": float(rel.mean()), "rel_by_energy": float(np.sqrt((rel ** 2 * share).sum()))}


def of_layer(x, y, d):
    after = x + y
    ratio = (d * d).sum(-1) / (after * after).sum(-1)
    return {"rel": rms_ratio(d, y), "rel_centered": rms_ratio(d - d.mean(0), y - y.mean(0)),
            "delta_on_stream": float(ratio.mean()), "delta_on_stream_median": float(np.median(ratio)),
            "delta_on_stream_before": float(((d * d).sum(-1) / (x * x).sum(-1)).mean()),
            "delta_energy": float((d * d).sum(-1).mean()), "output_energy": float((y * y).sum(-1).mean())}
