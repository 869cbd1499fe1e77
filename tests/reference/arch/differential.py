#!/usr/bin/env python3
"""Compares what kvcal taps and computes with the reference framework, on random tiny models of every supported class.

    make test-arch-reference [MODELS=20]
    python tests/reference/arch/differential.py DRIVER [CLASS...] [--models 20] [--silent 1] [--seed FIRST] [--keep FOLDER]
    python tests/reference/arch/differential.py DRIVER [CLASS...] --quantized [RECIPE...] [--damaged] [--models 1] ...

DRIVER is driver.cpp of this folder, built. Each model is drawn from its class and seed: a valid config, random weights,
and a config.json that says the same in one of the forms found in published checkpoints. Compared: caches (layers, heads,
widths, windows, softmax scale, sharing) with the framework's own cache object and attention, Q, K, V (or latent rows) of
every layer and the last logits with the tolerances of tests/harness/tolerances.h, the number of parameters, and that no tensor
stays unread. Further configs (--silent) leave nearly everything to the class's defaults; of these the reading is compared,
without weights. Prints a table, every difference, and every refusal of kvcal; exits 1 when anything differs. Drawn configs
that the framework itself does not take are counted as such.

--quantized: the models are quantised checkpoints instead, as tools publish them, and the reference gets the weights that
these mean; "nothing" counts those with nothing to quantise. --damaged: with one tensor wrong, and the refusal must name it.
"""

import argparse
import collections
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import damage  # noqa: E402
import dense  # noqa: E402
import forms  # noqa: E402
import hybrid  # noqa: E402
import layer_norm  # noqa: E402
import moe  # noqa: E402
import quantized  # noqa: E402
import recipes  # noqa: E402
import reference_run  # noqa: E402
import silent  # noqa: E402
import wrapped  # noqa: E402
from cases import Case  # noqa: E402
from dice import Dice  # noqa: E402

GROUPS = (dense, layer_norm, moe, hybrid, wrapped)
CLASSES = {name: draw for group in GROUPS for name, draw in group.CLASSES.items()}
SERVED = moe.SERVED | dense.SERVED | hybrid.SERVED
WEIGHTS = {name: draw for group in GROUPS for name, draw in group.WEIGHTS.items()}
ABSMAX, RMS = 1e-4, 1e-4  # tests/harness/tolerances.h
NARROW = 1e-4  # relative gap of a router's choice below which rounding may turn it
LENGTHS = (5, 41)


class Refused(Exception):
    """The reference framework does not take what was drawn."""


class Driver:
    def __init__(self, program: str):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request: dict) -> dict:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the driver ended with {self.process.wait()}")
        return json.loads(answer)


def differences_of_tensor(name: str, ours, theirs) -> list[str]:
    theirs = theirs.float()
    if ours.numel() != theirs.numel():
        return [f"{name}: {ours.numel()} values, expected {list(theirs.shape)}"]
    ours = ours.reshape(theirs.shape)
    found = []
    rms = ((ours - theirs).norm() / theirs.norm().clamp_min(1e-30)).item()
    if not rms <= RMS:
        found.append(f"{name}: relative RMS {rms:.2e}")
    if theirs.dim() == 3:
        a, b = (x.abs().amax(dim=(0, 2)) for x in (ours, theirs))
        moved = ((a - b).abs() / b.clamp_min(1e-30)).max().item()
        if not moved <= ABSMAX:
            found.append(f"{name}: absmax {moved:.2e}")
    return found


def differences_of_caches(ours: dict, theirs: dict, chunked: bool) -> list[str]:
    found = []
    if sorted(ours) != sorted(theirs["layouts"]):
        return [f"caches of layers {sorted(ours)}, expected {sorted(theirs['layouts'])}"]
    if sorted(ours) != sorted(theirs["cached"]):
        found.append(f"caches of layers {sorted(ours)}, the framework's cache object has {sorted(theirs['cached'])}")
    for layer, want in theirs["layouts"].items():
        have = ours[layer]
        for key in ("n_heads", "n_kv_heads", "head_dim_k", "head_dim_v", "shared_by"):
            if have[key] != want[key]:
                found.append(f"layer {layer}: {key} {have[key]}, expected {want[key]}")
        if abs(have["softmax_scale"] - want["softmax_scale"]) > 1e-6 * abs(want["softmax_scale"]):
            found.append(f"layer {layer}: softmax_scale {have['softmax_scale']}, expected {want['softmax_scale']}")
        visible = min(have["window"] or LENGTHS[-1], LENGTHS[-1])
        if visible != want["visible"] and not chunked:
            found.append(f"layer {layer}: window {have['window']}, but the last query sees {want['visible']} keys")
    return found


def differences(ours: dict, theirs: dict, tensors: dict, parameters: int) -> list[str]:
    found = [f"{key} {ours[key]}, expected {theirs[key]}" for key in ("n_layers", "vocab", "hidden", "tied")
             if ours[key] != theirs[key]]
    found += differences_of_caches(ours["caches"], theirs, theirs["chunked"])
    if ours["unclaimed"]:
        found.append(f"unread tensors: {ours['unclaimed'][:3]}")
    if ours["parameters"] != parameters:
        found.append(f"{ours['parameters']} parameters, expected {parameters}")
    if sorted(tensors) != sorted(theirs["tensors"]):
        return found + [f"tapped other sites: {sorted(set(tensors) ^ set(theirs['tensors']))[:6]}"]
    for name in sorted(tensors, key=lambda n: n.replace("logits", "~")):
        found += differences_of_tensor(name, tensors[name], theirs["tensors"][name])
    return found


def case_of(model: str, config: dict) -> Case:
    return Case(model, reference_run.own_name(model), config, "drawn", lengths=LENGTHS, weights=WEIGHTS.get(model),
                published_tensors=wrapped.PUBLISHED.get(model))


def quietly(step, *arguments):
    """The framework prints and warns about odd configs, and raises whatever comes."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return step(*arguments)
    except Exception as e:
        raise Refused(f"{type(e).__name__}: {e}") from e


def examine(driver: Driver, model: str, seed: int, folder: Path, recipe_name: str = "") -> tuple[str, list[str]]:
    """-> "agrees", "differs", "refused" (by kvcal), "narrow" or "not taken" (by the framework), "nothing" (to quantise by
    the recipe), and what was found"""
    recipe, read = None, folder
    if recipe_name:
        recipe, config, dice = quantized.draw(recipe_name, model, CLASSES[model], seed)
    else:
        dice = Dice(f"{model} {seed}")
        config = CLASSES[model](dice)
    case, plain = case_of(model, config), dice.flag(0.3)
    served, own_config = SERVED.get(model), {}

    def rewrite(config, own):
        own_config.update(own.to_dict())
        return config if plain or served else forms.rewritten(dice, config, own)

    try:
        parameters = quietly(reference_run.write_model, case, folder, seed, rewrite)
        if recipe:
            read = folder / "quantized"
            if not quantized.write(recipe, dice, model, folder, read):
                return "nothing", []
        generator = Dice(f"tokens {model} {seed}")
        sequences = [[generator.randrange(3, 90) for _ in range(n)] for n in LENGTHS]
        theirs = quietly(reference_run.run, case, folder, sequences)
    except Refused as e:
        return "not taken", [str(e)]
    if served:
        read = folder / "served"
        reference_run.write_served(served, own_config, folder, read)
    out = folder / "ours.safetensors"
    ours = driver.ask({"model": str(read), "sequences": sequences, "out": str(out)})
    if "error" in ours:
        return "refused", [ours["error"]]
    found = differences(ours, theirs, load_file(out), parameters)
    if not found:
        return "agrees", []
    return "narrow" if theirs["choice"] < NARROW else "differs", found


def examine_damaged(driver: Driver, model: str, seed: int, folder: Path, recipe_name: str) -> tuple[str, list[str]]:
    """The same with one tensor missing or changed: "named" in a refusal, or else "differs"."""
    recipe, config, dice = quantized.draw(recipe_name, model, CLASSES[model], seed)
    try:
        quietly(reference_run.write_model, case_of(model, config), folder, seed, lambda config, own: config)
        quantised = quantized.write(recipe, dice, model, folder, folder / "quantized")
    except Refused as e:
        return "not taken", [str(e)]
    path = folder / "quantized" / "model.safetensors"
    found = damage.damaged(dice, load_file(path), quantised) if quantised else None
    if not found:
        return "nothing", []
    tensors, module, done = found
    save_file(tensors, path, {"format": "pt"})
    ours = driver.ask({"model": str(path.parent), "sequences": [[3, 4, 5]], "out": str(folder / "ours.safetensors")})
    if ours.get("error", "").startswith("reading the config"):
        return "refused", [ours["error"]]
    wrong = damage.judge(ours, module)
    return ("differs", [done, wrong]) if wrong else ("named", [])


def examine_silent(driver: Driver, model: str, seed: int) -> tuple[str, list[str]]:
    config = silent.silent_config(Dice(f"silent {model} {seed}"), model)
    try:
        theirs = quietly(silent.reading_of, model, config)
    except Refused as e:
        return "not taken", [str(e)]
    ours = driver.ask({"config": config})
    if "error" in ours:
        return "refused", [ours["error"]]
    found = silent.differences(ours, theirs)
    return ("differs" if found else "agrees"), found


def checks_of(driver: Driver, model: str, root: Path, options) -> list[tuple]:
    seeds = range(options.seed, options.seed + options.models)
    served = model in SERVED  # whose files and defaults the framework does not know
    if options.quantized is not None:
        if served:
            return []
        how = examine_damaged if options.damaged else examine
        return [(f"{recipe} seed {seed}", lambda recipe=recipe, seed=seed:
                 how(driver, model, seed, root / f"{model}-{recipe}-{seed}", recipe))
                for recipe in options.quantized or recipes.ALL for seed in seeds]
    return [(f"seed {seed}", lambda seed=seed: examine(driver, model, seed, root / f"{model}-{seed}")) for seed in seeds] + \
        [(f"silent seed {seed}", lambda seed=seed: examine_silent(driver, model, seed))
         for seed in range(options.seed, options.seed + (0 if served else options.silent))]


def shortened(message: str) -> str:
    return re.sub(r"\d+", "N", message.split("\n")[0])[:150]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("classes", nargs="*", metavar="CLASS", help="classes to draw (default: all)")
    parser.add_argument("-n", "--models", type=int, default=20, help="models of each class")
    parser.add_argument("--silent", type=int, default=1, help="configs of each class that say nearly nothing")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--quantized", nargs="*", metavar="RECIPE", choices=recipes.ALL,
                        help="quantised checkpoints, by these recipes (default: all), --models of each class and recipe")
    parser.add_argument("--damaged", action="store_true", help="with --quantized: checkpoints with a wrong tensor")
    parser.add_argument("--keep", type=Path, help="folder that keeps the models")
    parser.add_argument("--verbose", action="store_true", help="also why the framework did not take a draw")
    options = parser.parse_args()
    unknown = set(options.classes) - set(CLASSES)
    if unknown:
        parser.error(f"unknown classes {sorted(unknown)}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    reference_run.servers_dynamic_rope()
    driver, total = Driver(options.driver), collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for model in options.classes or CLASSES:
            counts, reasons = collections.Counter(), collections.Counter()
            root = options.keep or Path(scratch)
            for name, check in checks_of(driver, model, root, options):
                verdict, found = check()
                counts[verdict] += 1
                if verdict == "differs":
                    print(f"{model} {name}:", *found[:6], sep="\n    ", flush=True)
                elif found:
                    reasons[verdict, shortened(found[0])] += 1
            total += counts
            print(f"{model:<40}", *(f"{verdict} {n}" for verdict, n in sorted(counts.items())), sep="  ", flush=True)
            for (verdict, reason), n in sorted(reasons.items()):
                if verdict == "refused" or options.verbose:
                    print(f"    {verdict} {n} times: {reason}", flush=True)
    print(*(f"{verdict} {n}" for verdict, n in sorted(total.items())), sep=", ")
    return 1 if total["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
