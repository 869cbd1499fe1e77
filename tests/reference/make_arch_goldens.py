"""Makes the architecture goldens: tiny random checkpoints and what the reference framework computes with them.

    python make_arch_goldens.py [CASE...] [--out DIR]     (re)makes the folders tests/arch/golden/<case>
    python make_arch_goldens.py --check                   makes them again elsewhere and compares

The attention function registered here receives exactly what the KV cache receives: keys and queries after bias, norm
and rotary embedding, values as projected, before heads are repeated; for MLA see latent_rows.py. Format:
tests/arch/golden/README.md.
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.models.deepseek_ocr2.modeling_deepseek_ocr2 import DEEPSEEK_OCR2_SAM_VISION_ATTENTION_CLASSES as SAM

import falcon_attention  # noqa: F401
import latent_rows
import picked_keys
from cases import CASES, Case
from golden_checkpoint import (class_of, config_of, draw_all, layers_of, parameters_of, rewrite_tensors, stored_tensors,
                               write_checkpoint)
from json_lines import write_json

GOLDEN = Path(__file__).resolve().parents[1] / "arch" / "golden"
TRIES = 96  # seeds to choose from: the one where bf16 arithmetic moves the absmax values least
MIN_FELT = 0.05  # where routers compute in f32: the change if their logits were bf16; tests allow 0.02
MAX_MOVEMENT, MIN_COSINE = 0.01, 0.9995  # of absmax; between last-position logits in f32 and in bf16
SAM["golden"] = SAM["eager"]  # a tower without an attention interface
PRECISIONS = {"f32": torch.float32, "bf16": torch.bfloat16}


# ------------------------------------------------------------------------------------------------ reference run
class Capture:
    """What the attention layers received in one forward pass: {layer: {site: [tokens, heads, head_dim]}}. A layer that
    reads another's keys and values has no sites of its own; its queries are the other's further ones."""

    def __init__(self):
        self.sites: dict[int, dict[str, torch.Tensor]] = {}
        self.further_queries: dict[int, list[torch.Tensor]] = {}
        self.readers: dict[int, list[int]] = {}  # of a layer's keys, beside itself
        self.scaling: dict[int, float] = {}
        self.value_widths: dict[int, int] = {}
        self.layer = -1  # that is running: a module that several layers share does not know
        self.visible: dict[int, int] = {}  # keys that the last query may see
        self.stored: dict[int, int] = {}  # where the keys of a layer lie

    def start(self):
        for table in (self.sites, self.further_queries, self.readers, self.stored):
            table.clear()

    def __call__(self, module, query, key, value, attention_mask, **kwargs):
        eager = sys.modules[type(module).__module__].eager_attention_forward
        if kwargs["scaling"] == 1 and getattr(module, "scaling", 1) != 1:  # OPT scales its queries before: servers do not
            query, kwargs = query / module.scaling, dict(kwargs, scaling=module.scaling)
        latent = latent_rows.is_latent(module)
        sites = latent_rows.sites(module, query, key) if latent else {
            site: x[0].transpose(0, 1).contiguous().detach()
            for site, x in (("query", query), ("key", key), ("value", value))}
        if getattr(module, "is_kv_shared_layer", False):
            owner = max(layer for layer, at in self.stored.items() if at == key.data_ptr())
            self.readers.setdefault(owner, []).append(self.layer)
            self.further_queries.setdefault(owner, []).append(sites["query"])
        else:
            layer = self.layer
            self.sites[layer] = sites
            self.stored[layer] = key.data_ptr()
            self.scaling[layer] = kwargs["scaling"]
            self.value_widths[layer] = module.kv_lora_rank if latent else value.shape[-1]
            self.visible[layer] = int((attention_mask[0, 0, -1] == 0).sum())
        return eager(module, query, key, value, picked_keys.mask_of(module, attention_mask, kwargs), **kwargs)

    def layouts(self) -> dict:
        """{layer: its geometry} of the layers that own a cache: of keys and values, or of rows whose first columns are
        the values."""
        found = {}
        for layer, sites in sorted(self.sites.items()):
            row = sites["latent"] if "latent" in sites else sites["key"]
            found[str(layer)] = {"n_heads": sites["query"].shape[1], "n_kv_heads": row.shape[1],
                                 "head_dim_k": row.shape[2], "head_dim_v": self.value_widths[layer],
                                 "softmax_scale": self.scaling[layer], "shared_by": self.readers.get(layer, [])}
        return found


def place(name: str) -> tuple[str, ...]:
    """What a tensor's name keeps when the reference renames its modules: layer number and last word, of a weight two."""
    words = name.split(".")
    return tuple(word for word in words if word.isdigit()) + tuple(words[-2 if words[-1] == "weight" else -1:])


def load(case: Case, folder: Path, precision: str):
    """The model as read from its folder. Tensors stored as f32 stay f32 in the bf16 model too, as servers keep them."""
    model, info = class_of(case.model).from_pretrained(
        folder, dtype=PRECISIONS[precision], attn_implementation="golden", experts_implementation="eager",
        output_loading_info=True)
    unexpected = {name for name in info["unexpected_keys"] if not name.startswith(("mtp.", "model.mtp_"))}
    if info["missing_keys"] or info["mismatched_keys"] or unexpected:
        raise RuntimeError(f"{case.name}: the reference does not read its own folder: {info}")
    loaded = stored_tensors(model)
    by_place = {place(name): name for name in loaded}
    with safe_open(folder / "model.safetensors", "pt") as file:
        for name in file.keys():
            if name.endswith(case.f32_tensors or "-"):
                loaded[name if name in loaded else by_place[place(name)]].data = file.get_tensor(name).clone()
    latent_rows.prepare(model)
    return model.eval()


def rows_of(output) -> torch.Tensor:
    """What a layer of the only sequence returns: [tokens, hidden or streams · hidden], alone or first of several things."""
    rows = output[0] if isinstance(output, tuple) else output
    return rows.squeeze(1).transpose(0, 1).flatten(1) if rows.dim() == 4 else rows.reshape(rows.shape[-2:])


def run(case: Case, folder: Path, precision: str, sequences: list[list[int]]) -> dict:
    """Captures, hidden states and last-position logits for every sequence, each alone from position 0."""
    capture, hidden = Capture(), []
    AttentionInterface.register("golden", capture)
    AttentionMaskInterface.register("golden", eager_mask)
    model = load(case, folder, precision)
    for i, block in enumerate(layers_of(model)):
        block.register_forward_pre_hook(lambda m, args, i=i: setattr(capture, "layer", i))
        block.register_forward_hook(lambda m, args, output: hidden.append(rows_of(output)))
    result = {"sites": [], "further_queries": [], "hidden": [], "logits": []}
    for ids in sequences:
        hidden.clear()
        capture.start()
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        result["sites"].append(dict(capture.sites))
        result["further_queries"].append(dict(capture.further_queries))
        result["hidden"].append(list(hidden))
        result["logits"].append(logits)
    return dict(result, scaling=capture.scaling, visible=dict(capture.visible), layouts=capture.layouts(),
                parameters=parameters_of(model), config=model.config.get_text_config())


def absmax(result: dict) -> dict:
    """{layer: {site: [sequence][head]}}: the largest magnitude of every head in every sequence."""
    def of_sequence(i: int, layer: int, site: str) -> list[float]:
        further = result["further_queries"][i].get(layer, []) if site == "query" else []
        seen = torch.stack([x.float().abs().amax(dim=(0, 2)) for x in (result["sites"][i][layer][site], *further)])
        return seen.amax(dim=0).tolist()

    return {str(layer): {site: [of_sequence(i, layer, site) for i in range(len(result["sites"]))]
                         for site in ("key", "value", "latent", "query") if site in result["sites"][0][layer]}
            for layer in sorted(result["sites"][0])}


def movement(exact: dict, rounded: dict) -> float:
    """The largest relative change of any absmax."""
    return max(abs(b / a - 1) for layer, sites in exact.items() for site, rows in sites.items()
               for x, y in zip(rows, rounded[layer][site]) for a, b in zip(x, y))


class RoundedLogits:
    """While it is entered: logits of routers that compute in f32 inside a bf16 model are rounded to bf16."""

    def __enter__(self):
        self.original = torch.nn.functional.linear

        def linear(x, weight, bias=None):
            y = self.original(x, weight, bias)
            return y.bfloat16().float() if x.dtype == torch.float32 else y

        torch.nn.functional.linear = linear
        return self

    def __exit__(self, *_):
        torch.nn.functional.linear = self.original


# ------------------------------------------------------------------------------------------------ files
@dataclass
class Attempt:
    """One seed: its sequences, and what the reference computes in both precisions."""

    seed: int
    sequences: list[list[int]]
    runs: dict[str, dict]
    maxima: dict[str, dict]
    felt: float | None  # of a close case: how much the tensors that are kept would change if routers' logits were bf16

    @property
    def moved(self) -> float:
        return movement(self.maxima["f32"], self.maxima["bf16"])

    @property
    def spread(self) -> float:
        """The largest relative RMS change of any whole Q, K or V: a router that changes its mind shows here."""
        return max(((b.float() - a.float()).norm() / a.float().norm()).item()
                   for exact, rounded in zip(self.runs["f32"]["sites"], self.runs["bf16"]["sites"])
                   for layer in exact for a, b in ((exact[layer][s], rounded[layer][s]) for s in exact[layer]))

    @property
    def unsteadiness(self) -> float:
        return max(self.moved, self.spread / 2)  # tests allow RMS twice what they allow absmax

    @property
    def cosine(self) -> float:
        return min(torch.cosine_similarity(a.float(), b.float(), dim=0).item()
                   for a, b in zip(self.runs["f32"]["logits"], self.runs["bf16"]["logits"]))


def draw_sequences(case: Case, seed: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    # A wrapper has no vocab_size of its own, and placeholder tokens need an image.
    limits = ("image_token_id", "image_token_index", "audio_token_id", "audio_token_index", "vocab_size")
    n_tokens = next(case.config[key] for key in limits if key in case.config)
    return [torch.randint(3, n_tokens, (n,), generator=generator).tolist() for n in case.lengths]


class NarrowestChoice:
    """While it is entered: how close any choice of torch.topk was, relative to the last value chosen."""

    def __enter__(self):
        self.gap, self.original = math.inf, (torch.topk, torch.Tensor.topk)

        def topk(x, k, *args, **kwargs):
            if k < x.shape[-1]:
                best = self.original[0](x.float(), k + 1, dim=-1).values
                last, next = best[..., -2], best[..., -1]
                gap = (last - next) / torch.maximum(last.abs(), next.abs())
                self.gap = min([self.gap, *gap[next > -math.inf].flatten().tolist()])
            return self.original[0](x, k, *args, **kwargs)

        torch.topk = torch.Tensor.topk = topk
        return self

    def __exit__(self, *_):
        torch.topk, torch.Tensor.topk = self.original


def likely_seeds(case: Case, tries: int) -> list[int]:
    """With routers, the seeds where the narrowest choice is widest: a rounding there is no matter of tolerance."""
    model = class_of(case.model)(config_of(case)).eval()
    gaps = {}
    for seed in range(1, tries + 1):
        draw_all(case, model, seed)
        with NarrowestChoice() as choice:
            for ids in draw_sequences(case, seed):
                model(input_ids=torch.tensor([ids]), use_cache=False)
        gaps[seed] = choice.gap
        if choice.gap == math.inf:
            return list(range(1, tries + 1))
    return sorted(gaps, key=gaps.get)[-max(1, tries // 12):]


def attempt(case: Case, folder: Path, seed: int) -> Attempt:
    """Writes the checkpoint of one seed and runs it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_checkpoint(case, folder, seed)
    sequences = draw_sequences(case, seed)
    runs = {precision: run(case, folder, precision, sequences) for precision in PRECISIONS}
    felt = None
    if case.close:
        with RoundedLogits():
            felt = largest_change(case, runs["bf16"], run(case, folder, "bf16", sequences))
    return Attempt(seed, sequences, runs, {precision: absmax(result) for precision, result in runs.items()}, felt)


def largest_change(case: Case, a: dict, b: dict) -> float:
    """The largest relative RMS change of a tensor that is kept whole."""
    x, y = (result["sites"][case.full_sequence] for result in (a, b))
    layer = sorted(x)[case.full_layer]
    return max(((y[layer][site].float() - t.float()).norm() / t.float().norm()).item() for site, t in x[layer].items())


def close_and_steady(a: Attempt) -> bool:
    return a.felt > MIN_FELT and a.unsteadiness < MAX_MOVEMENT and a.cosine > MIN_COSINE


def make(case: Case, folder: Path, seed: int | None, tries: int) -> dict:
    """Writes checkpoint and goldens of the given seed, or of the steadiest one under bf16 rounding."""
    if seed is None:
        seeds = range(1, tries + 1) if case.close else likely_seeds(case, tries)
        attempts = (attempt(case, folder, s) for s in seeds)
        best = next(filter(close_and_steady, attempts), None) if case.close else min(attempts, key=lambda a: a.unsteadiness)
        seed = best.seed if best else 1
    chosen = attempt(case, folder, seed)
    if case.close and not close_and_steady(chosen):
        raise RuntimeError(f"{case.name}: no seed, or its logits in bf16 would move no more than {chosen.felt}")
    if chosen.moved > MAX_MOVEMENT or chosen.cosine < MIN_COSINE:
        raise RuntimeError(f"{case.name}: bf16 moves absmax by {chosen.moved:.4f}, logits cosine {chosen.cosine:.5f}")
    return write_golden(case, folder, chosen)


def write_golden(case: Case, folder: Path, chosen: Attempt) -> dict:
    exact = chosen.runs["f32"]
    caches = sorted(exact["sites"][0])
    layer = caches[case.full_layer]
    row = next(exact["sites"][0][layer][site] for site in ("key", "latent") if site in exact["sites"][0][layer])
    logits = torch.stack(exact["logits"])
    if not logits.isfinite().all() or min(torch.pdist(logits)) < 1 or logits.abs().max() > 100:
        raise RuntimeError(f"{case.name}: the logits are equal, saturated or not finite")
    tensors = {}
    for precision, result in chosen.runs.items():
        for site, x in result["sites"][case.full_sequence][layer].items():
            tensors[f"{precision}.{site}"] = x if precision == "f32" or "expert" in str(exact["config"]) else x[::4]
        tensors[f"{precision}.logits"] = torch.stack(result["logits"])
    for i, x in enumerate(exact["hidden"][case.full_sequence]):
        tensors[f"f32.hidden.{i}"] = x[::4]
    save_file({name: x.detach().contiguous() for name, x in sorted(tensors.items())}, folder / "golden.safetensors")
    config, longest = exact["config"], len(chosen.sequences[-1])
    golden = {
        "case": case.name, "note": case.note, "architecture": case.model, "made_by": Path(__file__).name,
        "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "seed": chosen.seed,
        **({} if case.served and case.served_tensors else {"parameters": exact["parameters"]}),
        "n_layers": config.num_hidden_layers, "n_heads": exact["sites"][0][layer]["query"].shape[1] if getattr(config, "is_heterogeneous", 0) else config.num_attention_heads,
        "n_kv_heads": row.shape[1],
        "head_dim": row.shape[2],
        "layers_with_cache": caches,
        "softmax_scale": exact["scaling"][layer],
        "layouts": exact["layouts"],
        "windows": {str(i): exact["visible"][i] for i in caches if exact["visible"][i] < longest},
        "full_layer": layer, "full_sequence": case.full_sequence,
        **({"moved_by_bf16_logits": chosen.felt} if case.close else {}),
        "absmax_moved_by_bf16": chosen.moved, "logits_cosine_of_bf16": chosen.cosine,
        "sequences": chosen.sequences,
        "absmax": chosen.maxima,
    }
    write_json(folder / "golden.json", golden)
    if case.served_tensors:
        rewrite_tensors(folder, case.served_tensors)
    if case.served:
        write_json(folder / "config.json", case.served(json.loads((folder / "config.json").read_text())))
    return golden


def report(golden: dict, folder: Path) -> str:
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    with safe_open(folder / "golden.safetensors", "pt") as file:
        spread = file.get_tensor("f32.logits").std(dim=1).max().item()
    return (f"{golden['case']:18s} seed {golden['seed']:2d}  caches {str(golden['layers_with_cache']):12s}  windows "
            f"{str(list(golden['windows'].values())):16s} bf16 moves absmax {100 * golden['absmax_moved_by_bf16']:.2f} %  "
            f"cosine {golden['logits_cosine_of_bf16']:.5f}  logit sd {spread:4.1f}  "
            f"weights {sizes['model.safetensors'] // 1024:4d} KiB  golden {sizes['golden.safetensors'] // 1024:4d} KiB")


def compare(name: str, old: Path, new: Path) -> list[str]:
    """Differences between a committed folder and a fresh one: files to the byte, computed values to their precision."""
    found = [f"{name}/{file} differs" for file in ("config.json", "model.safetensors")
             if (old / file).read_bytes() != (new / file).read_bytes()]
    a, b = load_file(old / "golden.safetensors"), load_file(new / "golden.safetensors")
    if a.keys() != b.keys():
        return found + [f"{name}: tensors {sorted(a.keys() ^ b.keys())} on one side only"]
    for key in a:
        bound = 2e-5 if key.startswith("f32") else 3e-2
        x, y = a[key].float(), b[key].float()
        if x.shape != y.shape or (x - y).abs().max() > bound * x.abs().max():
            found.append(f"{name}: tensor {key} differs")
    x, y = (json.loads((folder / "golden.json").read_text()) for folder in (old, new))
    found += [f"{name}: {key} differs" for key in ("seed", "sequences", "windows") if x[key] != y[key]]
    found += [f"{name}: {p} absmax differs" for p, bound in (("f32", 1e-5), ("bf16", 1e-2))
              if movement(x["absmax"][p], y["absmax"][p]) > bound]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="cases to make (default: all)")
    parser.add_argument("--out", type=Path, default=GOLDEN, help="where the case folders go")
    parser.add_argument("--check", action="store_true", help="make again in a temporary folder and compare")
    parser.add_argument("--tries", type=int, default=TRIES, help="seeds to choose from, fewer while a case takes shape")
    options = parser.parse_args()
    unknown = set(options.cases) - {case.name for case in CASES}
    if unknown:
        parser.error(f"unknown cases {sorted(unknown)}; there are {', '.join(case.name for case in CASES)}")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    differences = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in CASES:
            if options.cases and case.name not in options.cases:
                continue
            committed = options.out / case.name
            folder = Path(scratch) / case.name if options.check else committed
            seed = json.loads((committed / "golden.json").read_text())["seed"] if options.check else None
            print(report(make(case, folder, seed, options.tries), folder), flush=True)
            if options.check:
                differences += compare(case.name, committed, folder)
    print(*differences, sep="\n", end="\n" if differences else "")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
