"""Makes tests/evaluate/row_errors.json: how far rows of a cache are off that come back rounded, in numpy.

    python make_row_error_goldens.py

The variants are those of the evaluation goldens, the rows those that the reference framework's attention receives there,
what becomes of them is by cache_formats.py. The error is sqrt(sum of (x' - x)^2 / sum of x^2) of the worst head, over at most
64 tokens of a sequence: the first, and evenly spaced ones with the last among them. Of a latent row it is that of the worse of
its parts, the latent and the one with RoPE.
"""

import json
from pathlib import Path

import numpy as np
import torch
import transformers

from cache_formats import round_rows
from json_lines import write_small_json
from make_evaluation_goldens import DIGITS, GOLDEN, Reference

OUT = Path(__file__).resolve().parents[1] / "evaluate" / "row_errors.json"
SAMPLED = 64
CASES = ("qwen3", "deepseek_v3", "gemma4")  # grouped heads, latent rows, layers that read another's cache


def sums_of(x: np.ndarray, rounding: dict) -> np.ndarray:
    """[2, heads, channels] of x [tokens, heads, channels]: of squares, and of squared errors."""
    n = min(len(x), SAMPLED)
    x = x[[i * (len(x) - 1) // max(n - 1, 1) for i in range(n)]]
    stored = round_rows(x, rounding).astype(np.float64)
    x = x.astype(np.float64)
    return np.stack([(x**2).sum(axis=0), ((stored - x)**2).sum(axis=0)])


def errors_of(reference: Reference, layers: dict) -> dict:
    cache, sums = reference.cache, {}
    original = cache.round

    def watched(site: str, x: torch.Tensor, owner: int) -> torch.Tensor:
        rounding = cache.rounding.get(owner, {}).get(site)
        if rounding and site != "query" and owner == cache.layer:
            found = sums_of(x.contiguous().numpy(), rounding)
            sums[owner, site] = sums.get((owner, site), 0) + found
        return original(site, x, owner)

    cache.round = watched
    reference.run({int(layer): sites for layer, sites in layers.items()})
    cache.round = original
    errors = {}
    for (layer, site), (squares, off) in sorted(sums.items()):
        parts = [slice(None)]
        if site == "latent":
            rank = reference.model.config.get_text_config().kv_lora_rank
            parts = [slice(0, rank), slice(rank, None)]
        worst = max(float(np.sqrt(off[:, p].sum(axis=1) / squares[:, p].sum(axis=1)).max()) for p in parts)
        errors.setdefault(str(layer), {})[site] = float(f"{worst:.{DIGITS}g}")
    return errors


def main() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    golden = {"made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0],
              "transformers": transformers.__version__, "numpy": np.__version__, "cases": {}}
    for name in CASES:
        reference = Reference(name)
        variants = json.loads((GOLDEN / f"{name}.json").read_text())["variants"]
        golden["cases"][name] = {v["name"]: errors_of(reference, v["layers"]) for v in variants}
        print(name, json.dumps(golden["cases"][name]["e4m3_tensor"]))
    write_small_json(OUT, golden)


if __name__ == "__main__":
    main()
