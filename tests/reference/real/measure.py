"""What an FP8 cache does to a trained model: its predictions, layer by layer, beside what a layer alone can tell.

    measure.py FOLDER RESULTS.json [--tokens 2400] [--layer-tokens 800]

Keys and values are rounded to E4M3, all of them that a query reads, its own token's too; against the model unrounded.
"""
import argparse
import json
import time
from pathlib import Path

import ml_dtypes
import numpy as np

from llama import Llama
from local_figures import figures
from text import chats

LARGEST, HEADROOM = 448.0, 2


def e4m3(x, scale):
    scale = np.float32(scale)
    return np.clip(x / scale, -LARGEST, LARGEST).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale


def rounding(sites, scales):
    """sites: "k", "v" or "kv"; scales: (of keys, of values)"""
    def cached(k, v):
        return (e4m3(k, scales[0]) if "k" in sites else k), (e4m3(v, scales[1]) if "v" in sites else v)
    return cached


class Measurement:
    """Streams before every layer and the unrounded predictions, of some prompts."""

    def __init__(self, model, prompts):
        self.model, self.ids = model, np.concatenate(prompts)
        ends = np.cumsum([len(p) for p in prompts])
        self.spans = list(zip(ends - [len(p) for p in prompts], ends))
        # Predictions that have a next token in the text.
        self.rows = np.concatenate([np.arange(a, b - 1) for a, b in self.spans])
        self.streams = [model.embed(self.ids)]
        for layer in range(model.n_layers):
            self.streams.append(model.layer(layer, self.streams[-1], self.spans))
        self.log_p = self.predictions(self.streams[-1])

    def predictions(self, x):
        y = self.model.logits(x[self.rows])
        y -= y.max(-1, keepdims=True)
        y -= np.log(np.exp(y).sum(-1, keepdims=True))
        return y

    def scales(self, layer):
        _, k, v = self.model.qkv(layer, self.streams[layer], self.spans)
        return tuple(float(np.abs(z).max()) * HEADROOM / LARGEST for z in (k, v))

    def compared(self, x):
        """-> KL per token in nats (exact against rounded), the rise of the loss, share of equal best tokens"""
        log_q = self.predictions(x)
        parts = zip(np.array_split(self.log_p, 16), np.array_split(log_q, 16))
        kl = np.concatenate([(np.exp(p) * (p - q)).sum(-1) for p, q in parts])
        following = self.ids[self.rows + 1]
        at = np.arange(len(self.rows))
        return {"kl": float(kl.mean()), "kl_p99": float(np.quantile(kl, .99)),
                "loss": float((self.log_p[at, following] - log_q[at, following]).mean()),
                "top1": float((self.log_p.argmax(-1) == log_q.argmax(-1)).mean())}

    def run(self, layers, cached_of):
        """layers: those that are rounded, by cached_of(layer)."""
        x = self.streams[min(layers)]
        for layer in range(min(layers), self.model.n_layers):
            x = self.model.layer(layer, x, self.spans, cached_of(layer) if layer in layers else None)
        return self.compared(x)


def whole_model(m, scales):
    every = range(m.model.n_layers)
    results = {}
    for sites in ("kv", "k", "v"):
        results[f"{sites}_at_scale"] = m.run(every, lambda layer: rounding(sites, scales[layer]))
        print(sites, results[f"{sites}_at_scale"], flush=True)
    results["kv_at_one"] = m.run(every, lambda layer: rounding("kv", (1, 1)))
    return results


def one_layer(m, layer, scales):
    row = {"scales": scales, "figures": figures(m.model, layer, m.streams[layer], m.spans, rounding("kv", scales))}
    for sites in ("kv", "k", "v"):
        row[sites] = m.run([layer], lambda _: rounding(sites, scales))["kl"]
    return row


def short(x):
    """Four digits are more than the text supports."""
    if isinstance(x, dict):
        return {k: short(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [short(v) for v in x]
    return float(f"{x:.4g}") if isinstance(x, float) else x


def write(path, results):
    """A line for each layer."""
    layers = ",\n".join("  " + json.dumps(short(row)) for row in results["layers"])
    rest = json.dumps(short({k: v for k, v in results.items() if k != "layers"}))
    path.write_text(rest[:-1] + ',\n "layers": [\n' + layers + "\n]}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--tokens", type=int, default=2400)
    parser.add_argument("--layer-tokens", type=int, default=800)
    options = parser.parse_args()
    model = Llama(options.folder)
    results = {"tokens": options.tokens, "layer_tokens": options.layer_tokens, "layers": []}
    few = Measurement(model, chats(options.folder, options.layer_tokens, 400))
    for layer in range(model.n_layers):
        start = time.time()
        results["layers"].append(one_layer(few, layer, few.scales(layer)))
        print(layer, f"{time.time() - start:.0f} s", json.dumps(results["layers"][-1]), flush=True)
        write(options.results, results)
    m = Measurement(model, chats(options.folder, options.tokens, 600))
    results["loss"] = float(-m.log_p[np.arange(len(m.rows)), m.ids[m.rows + 1]].mean())
    results["all_layers"] = whole_model(m, [m.scales(layer) for layer in range(model.n_layers)])
    write(options.results, results)


if __name__ == "__main__":
    main()
