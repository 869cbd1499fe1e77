"""Does vLLM-Ascend use the scales of an export? Its own functions, taken from its source, without an NPU and without vLLM:

    pip download --no-deps --no-build-isolation --no-clean --no-binary :all: vllm-ascend==0.23.0.post1   # keeps the source
    python3 tests/loaders/check_vllm_ascend.py EXPORT --expect EXPORT.expect.json --source vllm-ascend-0.23.0.post1

Exit status: 0, every layer has exactly the expected scales, on one rank and on two, and rounds with them; 1, one does not.
"""
import argparse
import json
import re
import types
from pathlib import Path

import torch
from safetensors import safe_open

from own_functions import functions

PACKED = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}


def tensors(folder):
    index = json.load(open(folder / "model.safetensors.index.json"))["weight_map"]
    for shard in sorted(set(index.values())):
        with safe_open(folder / shard, "pt") as file:
            yield from ((name, file.get_tensor(name)) for name in file.keys())


def config_of(folder, source):
    """AscendModelSlimConfig, as far as it is about the cache."""
    made = functions(
        source / "vllm_ascend/quantization/modelslim_config.py",
        ["AscendModelSlimConfig." + name for name in
         ("_add_kvcache_quant_metadata", "is_c8_quant_layer", "get_cache_scale", "is_layer_skipped_ascend")],
        {"re": re, "MappingProxyType": types.MappingProxyType})
    config = types.SimpleNamespace(quant_description=json.load(open(folder / "quant_model_description.json")))
    for name, function in made.items():
        setattr(config, name.split(".")[1], types.MethodType(function, config))
    config._add_kvcache_quant_metadata()
    return config


def load(folder, source, config, layers, prefix):
    """The attention layers after load_weights, and the names that went on to the class's own loader."""
    log = types.SimpleNamespace(info_once=print, warning=lambda *a: (_ for _ in ()).throw(SystemExit(str(a))))
    names = {"torch": torch, "logger": log}
    method = functions(
        source / "vllm_ascend/quantization/methods/kv_c8.py",
        ["_c8_kv_scale_weight_loader", "AscendC8KVCacheAttentionMethod.create_weights",
         "AscendC8KVCacheAttentionMethod.process_weights_after_loading"], names)
    made = functions(source / "vllm_ascend/patch/worker/patch_gqa_c8.py", ["_patched_causal_lm_load_weights"],
                     {"default_weight_loader": None, "logger": log, "Iterable": None, "torch": torch})
    torch.set_default_dtype(torch.bfloat16)
    modules, parameters = {}, {}
    for layer in layers:
        attention = f"{prefix}layers.{layer}.self_attn.attn"
        assert config.is_c8_quant_layer(attention), f"{attention} stays in the model's dtype"
        modules[layer] = torch.nn.Module()
        method["AscendC8KVCacheAttentionMethod.create_weights"](types.SimpleNamespace(is_kv_producer=False),
                                                                modules[layer])
        parameters.update((f"{attention}.{name}", p) for name, p in modules[layer].named_parameters())
    model = types.SimpleNamespace(quant_config=config, named_parameters=lambda: parameters.items())
    passed_on = []
    made["_patched_causal_lm_load_weights"](
        model, tensors(folder), lambda self, weights: set(passed_on.extend(name for name, _ in weights) or ()))
    for module in modules.values():
        method["AscendC8KVCacheAttentionMethod.process_weights_after_loading"](None, module)
    return modules, passed_on


def rounds(source, module, n_heads, width, rank, n_ranks):
    """A backend of one rank that has prepared its scales, and what rounding random keys and values gives back."""
    made = functions(
        source / "vllm_ascend/attention/attention_v1.py",
        ["AscendC8AttentionBackendImpl._prepare_c8_scales", "AscendC8AttentionBackendImpl._quantize_kv_to_int8"],
        {"torch": torch, "get_tensor_model_parallel_rank": lambda: rank,
         "get_tensor_model_parallel_world_size": lambda: n_ranks})
    backend = types.SimpleNamespace(num_kv_heads=n_heads // n_ranks, head_size=width)
    layer = types.SimpleNamespace(**dict(module.named_parameters()))
    made["AscendC8AttentionBackendImpl._prepare_c8_scales"](backend, layer, torch.device("cpu"))
    shape = (7, backend.num_kv_heads, width)
    rows = [(torch.rand(shape) * 2 - 1) * 127 * scale for scale in (layer._c8_k_scale, layer._c8_v_scale)]
    codes = made["AscendC8AttentionBackendImpl._quantize_kv_to_int8"](backend, *rows, layer, shape[0])
    for row, code, scale in zip(rows, codes, (layer._c8_k_scale, layer._c8_v_scale)):
        # Products of bfloat16 are off by up to a code and a half near 127.
        assert ((code.float() * scale.float() - row.float()).abs() <= 2 * scale.float()).all(), "the codes are of other scales"
    return layer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("export", type=Path)
    parser.add_argument("--expect", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    args = parser.parse_args()
    expected = json.load(open(args.expect))["layers"]
    config_json = json.load(open(args.export / "config.json"))
    n_heads = config_json["num_key_value_heads"]
    config = config_of(args.export, args.source)
    modules, passed_on = load(args.export, args.source, config, expected, "model.")
    assert not [name for name in passed_on if "kv_cache_" in name], "scales reached the class's own loader"
    for name in passed_on:
        if name.endswith("self_attn.q_proj.weight"):
            fused = name.removesuffix(".q_proj.weight") + ".qkv_proj"
            assert config.is_layer_skipped_ascend(fused, PACKED), f"{fused} would be loaded as quantized"
    for layer, module in modules.items():
        for site in "kv":
            want = torch.tensor(expected[layer][site], dtype=torch.float32)
            found = getattr(module, f"{site}_cache_scale").data
            assert found.dtype == torch.bfloat16 and (found.float() == want).all(), f"layer {layer} {site}"
            assert (getattr(module, f"{site}_cache_offset").data == 0).all(), f"layer {layer} {site} offset"
            width = len(want) // n_heads
            for n_ranks in (1, 2):
                parts = [getattr(rounds(args.source, module, n_heads, width, r, n_ranks), f"_c8_{site}_scale")
                         for r in range(n_ranks)]
                assert (torch.cat(parts, dim=1).float().flatten() == want).all(), f"layer {layer} {site}, {n_ranks} ranks"
    print(f"{len(modules)} layers, {n_heads} KV heads: scales, offsets and rounding as expected")


if __name__ == "__main__":
    main()
