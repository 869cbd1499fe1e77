"""Is an export for ModelOpt what ModelOpt itself would write and read? Its own functions, from an unpacked wheel (0.48.0rc1), without
its packages:

    python3 tests/loaders/check_modelopt.py EXPORT SCALES --source modelopt

EXPORT is a folder of 'kvcal export SCALES --to modelopt', with or without --recipe. Exit status: 0, its converter makes config.json's
words of hf_quant_config.json, and its resolver finds, for the scale of each listed module, the format whose scale is there; 1, not so.
"""
import argparse
import collections
import json
from pathlib import Path

import numpy
from safetensors import safe_open

from own_functions import constant, functions

KEYS = ("kv_cache_scheme", "kv_cache_quant_algo", "kv_cache_quantized_layers", "kv_cache_schema_version", "kv_cache_deployment_supported")


def converted(source, side):
    """ModelOpt's config.json of its hf_quant_config.json, as far as the cache goes."""
    path = source / "torch/export/convert_hf_config.py"
    name = "convert_hf_quant_config_format"
    given = {"defaultdict": collections.defaultdict, "GGML_FORMATS": (), "_quant_algo_to_group_config": lambda *_: {}}
    return functions(path, [name], given)[name](side)


def bf16_rounded_up(x):
    bits = numpy.float32(x).view(numpy.uint32)
    return ((bits + numpy.uint32(0xFFFF)) & numpy.uint32(0xFFFF0000)).view(numpy.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("export", type=Path)
    parser.add_argument("scales", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    args = parser.parse_args()
    inside = json.load(open(args.export / "config.json"))["quantization_config"]
    side = json.load(open(args.export / "hf_quant_config.json"))
    cache = {key: inside[key] for key in KEYS if key in inside}
    found = converted(args.source, side)
    assert {key: found[key] for key in KEYS if key in found} == cache, (found, cache)

    constants = {name: constant(args.source / "torch/export/quant_format.py", name) for name in
                 ("KV_CACHE_FP8", "KV_CACHE_NVFP4", "KV_CACHE_NVFP4_AFFINE", "KV_CACHE_FP8_K_NVFP4_V")}
    names = ["_resolve_kv_cache_format_for_key", "_get_kv_cache_postprocess_config"]
    own = functions(args.source / "torch/export/quant_utils.py", names, dict(constants))
    formats = own["_get_kv_cache_postprocess_config"](side["quantization"])
    sites = {layer["name"]: layer for layer in json.load(open(args.scales))["layers"]}
    listed = side["quantization"].get("kv_cache_quantized_layers") or sites
    counts = {}
    with safe_open(args.export / "model-kv-scales.safetensors", "numpy") as file:
        for module in listed:
            for letter, site in (("k", "key"), ("v", "value")):
                made = file.get_tensor(f"{module}.{letter}_proj.{letter}_scale")
                kind = own["_resolve_kv_cache_format_for_key"](f"{module}.{letter}_bmm_quantizer._amax", formats)
                wanted = sites[module][site]
                exact = wanted["scale"] if kind == "FP8" else numpy.float64(wanted["absmax"]) / 448
                exact = numpy.nextafter(numpy.float32(exact), numpy.float32(numpy.inf)) if numpy.float32(exact) < exact else exact
                assert made.shape == () and made == bf16_rounded_up(exact), (module, letter, kind, made, exact)
                counts[kind] = counts.get(kind, 0) + 1
    print(f"{len(listed)} modules, as ModelOpt resolves them:", ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))


if __name__ == "__main__":
    main()
