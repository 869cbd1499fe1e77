"""Which figure of a layer alone orders layers as their harm does: rank correlation with the KL of rounding that layer only.

    rank.py RESULTS.json [kv-cache-scales.json]

With a scale file: what kvcal says of key and value, too.
"""
import json
import sys

import numpy as np


def ranks(x):
    return np.argsort(np.argsort(x))


def spearman(a, b):
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def correlations(layers, harm):
    """Name of a figure -> rank correlation, best first."""
    kl = np.array([row[harm] for row in layers])
    names = layers[0]["figures"]
    found = {n: spearman(np.array([row["figures"][n] for row in layers]), kl) for n in names}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def said(site):
    a = site.get("assessment")
    return f"{a['scale']}, {a['fp8']}" if a else site["verdict"]


def on_stream(layer, sites):
    """What the scale file says rounding moves of the residual stream."""
    return sum(layer[site]["assessment"]["at_scale"]["on_stream"] for site in sites)


def print_layers(layers, scale_file):
    shown = ("kl_mean", "kl_worst", "rel", "rel_centered", "rel_head_worst", "delta_on_stream")
    own = ["key", "value"] if scale_file else []
    ranked = ["on_stream of the file"] if scale_file else []
    heads = ["layer", "KL, K and V", "K", "V", *shown, *ranked, *own]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for i, row in enumerate(layers):
        numbers = [row["kv"], row["k"], row["v"], *(row["figures"][n] for n in shown)]
        numbers += [on_stream(scale_file["layers"][i], own)] if scale_file else []
        cells = [f"{x:.2g}" for x in numbers] + [said(scale_file["layers"][i][site]) for site in own]
        print(f"| {i} | " + " | ".join(cells) + " |")


def main():
    results = json.load(open(sys.argv[1]))
    layers = results["layers"]
    scale_file = json.load(open(sys.argv[2])) if len(sys.argv) > 2 else None
    print_layers(layers, scale_file)
    for harm, sites in {"kv": ["key", "value"], "k": ["key"], "v": ["value"]}.items():
        if scale_file:
            rank = spearman(np.array([on_stream(x, sites) for x in scale_file["layers"]]),
                            np.array([row[harm] for row in layers]))
            print(f"\nrank correlation of the file's on_stream with the KL of rounding {harm}: {rank:.2f}")
        print(f"\nrank correlation with the KL of rounding {harm}: " +
              ", ".join(f"{n} {r:.2f}" for n, r in correlations(layers, harm).items()))
    for name, r in results.get("all_layers", {}).items():
        print(f"{name}: KL {r['kl']:.3g}, loss {r['loss']:+.3f}, top-1 {100 * r['top1']:.1f} %")


if __name__ == "__main__":
    main()
