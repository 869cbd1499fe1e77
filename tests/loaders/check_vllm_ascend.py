"""Does vLLM-Ascend use the scales of an export? Its own functions and those of the vLLM that it patches, taken from their
sources, without an NPU and without either package:

    pip download --no-deps --no-build-isolation --no-clean --no-binary :all: vllm-ascend==0.30.0rc2   # keeps the source
    python3 tests/loaders/check_vllm_ascend.py EXPORT --expect EXPORT.expect.json --source vllm_ascend-0.30.0rc2 --vllm vllm
    python3 tests/loaders/check_vllm_ascend.py --classes --vllm vllm
    python3 tests/loaders/check_vllm_ascend.py --latent --source vllm_ascend-0.30.0rc2

`--vllm` is the folder vllm of the wheel 0.30.0, unpacked. For vllm-ascend 0.23.0.post1 it is not needed, which has no MXFP8 cache;
whether EXPORT is one of that, or of INT8, is what its tensors say. `--classes` reads from
vLLM's sources which classes merge projections before scales are renamed, and compares with lib/servers/server_table.cpp.
`--latent` hands plain projections to what prepares latent attention with a scale (FAKQuant).

Exit status: 0, every layer has exactly the expected scales, on one rank and on two, and rounds with them, or the table is right;
1, something differs.
"""
import argparse
import ast
import dataclasses
import json
import re
import types
from pathlib import Path

import torch
from safetensors import safe_open

from own_functions import constant, functions

PACKED = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}
TABLE = Path(__file__).resolve().parents[2] / "lib/servers/server_table.cpp"


def tensors(folder):
    index = json.load(open(folder / "model.safetensors.index.json"))["weight_map"]
    for shard in sorted(set(index.values())):
        with safe_open(folder / shard, "pt") as file:
            yield from ((name, file.get_tensor(name)) for name in file.keys())


def one_of(source, *paths):
    return next(source / "vllm_ascend" / path for path in paths if (source / "vllm_ascend" / path).exists())


def constants(path, prefix):
    """Names of module-level assignments."""
    return [t.id for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)
            for t in node.targets if isinstance(t, ast.Name) and t.id.startswith(prefix)]


def classes_of(path, names, given):
    """Classes that a file defines, made with the names given."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in names]
    exec(compile(tree, str(path), "exec", dont_inherit=True, flags=__import__("__future__").annotations.compiler_flag), given)
    return [given[name] for name in names]


def config_of(folder, source, vllm):
    """AscendModelSlimConfig, as far as it is about the cache."""
    path = one_of(source, "quantization/configs/modelslim_config.py", "quantization/modelslim_config.py")
    wanted = ["_add_kvcache_quant_metadata", "is_c8_quant_layer"]
    given = {"re": re, "MappingProxyType": types.MappingProxyType}
    is_mapped = "get_cache_scale_mapper" in path.read_text()
    wanted += ["get_cache_scale_mapper"] if is_mapped else ["get_cache_scale", "is_layer_skipped_ascend"]
    has_mxfp8 = is_mapped and any(name.endswith(".fa_v.scale") for name, _ in tensors(folder))
    if is_mapped:
        log = types.SimpleNamespace(warning_once=print)
        given |= {name: constant(path, name) for name in constants(path, "_MXFP_C8_")}
        wanted += ["_has_mxfp_c8_recipe"]
        [given["WeightsMapper"]] = classes_of(vllm / "model_executor/models/utils.py", ["WeightsMapper"],
                                              {"dataclass": dataclasses.dataclass, "field": dataclasses.field,
                                               "replace": dataclasses.replace, "logger": log})
        upstream = vllm / "model_executor/layers/quantization/base_config.py"
        text = ast.get_source_segment(upstream.read_text(), next(
            n for n in ast.walk(ast.parse(upstream.read_text()))
            if isinstance(n, ast.FunctionDef) and n.name == "get_cache_scale_mapper"))
        text = "\n".join(line for line in text.splitlines() if " import WeightsMapper" not in line)
        exec("from __future__ import annotations\n" + text, scope := dict(given))
        given |= {"QuantizationConfig": types.SimpleNamespace(get_cache_scale_mapper=scope["get_cache_scale_mapper"]),
                  "logger": log}
    made = functions(path, ["AscendModelSlimConfig." + name for name in wanted], given)
    config = types.SimpleNamespace(quant_description=json.load(open(folder / "quant_model_description.json")),
                                   enable_mxfp_c8_quant=has_mxfp8)
    for name, function in made.items():
        setattr(config, name.split(".")[1], types.MethodType(function, config))
    if is_mapped:
        config._has_mxfp_c8_recipe = config._has_mxfp_c8_recipe()  # a property there
        assert config._has_mxfp_c8_recipe == has_mxfp8, "the description has no MXFP8 cache"
    config._add_kvcache_quant_metadata()
    config.mapper = given.get("WeightsMapper")
    if is_mapped:
        kinds = functions(path, ["_is_missing_v_shard", "get_quant_type_for_layer"], {"logger": log})
        config.is_layer_skipped_ascend = lambda prefix, packed: kinds["get_quant_type_for_layer"](
            config.quant_description, prefix, packed) is None
    return config


def loaded_by_mapper(folder, config, parameters, **first):
    """As AutoWeightsLoader renames, after what the class's own mapper does; what has a parameter's name reaches it."""
    passed_on = []
    for name, tensor in (config.mapper(**first) | config.get_cache_scale_mapper()).apply(tensors(folder)):
        if name in parameters:
            parameters[name].weight_loader(parameters[name], tensor)
        else:
            passed_on.append(name)
    return passed_on


def loaded_by_patch(folder, source, config, parameters):
    log = types.SimpleNamespace(info_once=print, warning=lambda *a: (_ for _ in ()).throw(SystemExit(str(a))))
    made = functions(source / "vllm_ascend/patch/worker/patch_gqa_c8.py", ["_patched_causal_lm_load_weights"],
                     {"default_weight_loader": None, "logger": log, "Iterable": None, "torch": torch})
    model = types.SimpleNamespace(quant_config=config, named_parameters=lambda: parameters.items())
    passed_on = []
    made["_patched_causal_lm_load_weights"](
        model, tensors(folder), lambda self, weights: set(passed_on.extend(name for name, _ in weights) or ()))
    return passed_on


def load(folder, source, config, layers, prefix):
    """The attention layers after load_weights, and the names that went on to the class's own loader."""
    log = types.SimpleNamespace(info_once=print)
    method = functions(
        one_of(source, "quantization/methods/kv_cache/kv_c8.py", "quantization/methods/kv_c8.py"),
        ["_c8_kv_scale_weight_loader", "AscendC8KVCacheAttentionMethod.create_weights",
         "AscendC8KVCacheAttentionMethod.process_weights_after_loading"], {"torch": torch, "logger": log})
    torch.set_default_dtype(torch.bfloat16)
    modules, parameters = {}, {}
    for layer in layers:
        attention = f"{prefix}layers.{layer}.self_attn.attn"
        assert config.is_c8_quant_layer(attention), f"{attention} stays in the model's dtype"
        modules[layer] = torch.nn.Module()
        method["AscendC8KVCacheAttentionMethod.create_weights"](types.SimpleNamespace(is_kv_producer=False),
                                                                modules[layer])
        parameters.update((f"{attention}.{name}", p) for name, p in modules[layer].named_parameters())
    passed_on = (loaded_by_mapper(folder, config, parameters) if config.mapper
                 else loaded_by_patch(folder, source, config, parameters))
    for module in modules.values():
        method["AscendC8KVCacheAttentionMethod.process_weights_after_loading"](None, module)
    return modules, passed_on


def mxfp8_layer(args, config, attention, n_heads, width, rank, n_ranks, **first):
    """An attention module of one rank after loading, and the class's own mapper `first`."""
    ranks = {"get_tensor_model_parallel_rank": lambda: rank, "get_tensor_model_parallel_world_size": lambda: n_ranks,
             "get_current_vllm_config": lambda: types.SimpleNamespace(
                 model_config=types.SimpleNamespace(dtype=torch.bfloat16)), "torch": torch}
    kind = "AscendC8MXFPKVCacheAttentionMethod."
    made = functions(args.source / "vllm_ascend/quantization/methods/kv_cache/mxfp_c8.py",
                     ["_quant_weight_loader", kind + "create_weights", kind + "process_weights_after_loading"], ranks)
    layer = torch.nn.Module()
    layer.num_kv_heads, layer.head_size_v = n_heads // n_ranks, width
    made[kind + "create_weights"](None, layer)
    passed_on = loaded_by_mapper(args.export, config, {f"{attention}.v_cache_scale": layer.v_cache_scale}, **first)
    made[kind + "process_weights_after_loading"](None, layer)
    return layer, passed_on


def check_mxfp8(args, config, layers, n_heads, prefix):
    """The byte of every channel on one rank and on two, its reciprocal, the scales beside the cache, and what comes back."""
    attention_file = args.source / "vllm_ascend/attention/attention_c8_mxfp.py"
    fill = functions(attention_file, ["fill_mxfp_v_scale_cache"], {"torch": torch})["fill_mxfp_v_scale_cache"]
    merging = {"orig_to_new_stacked": {f".{s}_proj": (".qkv_proj", s) for s in "qkv"}}
    for layer, sites in layers.items():
        assert list(sites) == ["v"], f"layer {layer} has scales of {list(sites)}"
        want = torch.tensor(sites["v"], dtype=torch.float32)
        width, attention = len(want) // n_heads, f"{prefix}layers.{layer}.self_attn.attn"
        for n_ranks in (1, 2):
            for first in ({}, merging):
                parts = [mxfp8_layer(args, config, attention, n_heads, width, r, n_ranks, **first) for r in range(n_ranks)]
                names = [n for _, passed_on in parts for n in passed_on if f".{layer}.self_attn.fa_" in n or attention in n]
                assert not names, f"{names} reached the class's own loader"
                loaded = torch.cat([module.v_cache_scale.data for module, _ in parts])
                assert loaded.dtype == torch.uint8 and (torch.exp2(loaded.float() - 127) == want).all(), f"layer {layer}"
                inverse = torch.cat([module.v_cache_scale_float_reciprocal.data for module, _ in parts])
                assert inverse.dtype == torch.bfloat16 and (inverse.float() * want == 1).all(), f"layer {layer} reciprocal"
        cache = torch.zeros((3, n_heads, width // 16, 512 // 64, 16, 2), dtype=torch.uint8)
        fill(loaded, cache)
        assert (cache[1, :, :, 5, :, 1].reshape(-1) == loaded).all(), f"layer {layer} beside the cache"
        values = (torch.rand(7, len(want)) * 2 - 1) * 448 * want
        back = (values.bfloat16() * inverse).float().to(torch.float8_e4m3fn).float() * want
        assert ((back - values).abs() <= values.abs() / 8 + want / 512).all(), f"layer {layer}: the codes are of other scales"
    print(f"{len(layers)} layers, {n_heads} KV heads: MXFP8 scales of values and rounding as expected")


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


class Sources:
    """Classes of vllm/model_executor/models, as far as text tells."""

    def __init__(self, vllm):
        self.models, self.trees = vllm / "model_executor/models", {}

    def tree(self, module):
        if module not in self.trees:
            path = self.models / (module + ".py")
            self.trees[module] = ast.parse(path.read_text()).body if path.exists() else []
        return self.trees[module]

    def line_of(self, module, name):
        """The class and those that it inherits from, each with its module."""
        for node in self.tree(module):
            if isinstance(node, ast.ClassDef) and node.name == name:
                bases = [b.id for b in node.bases if isinstance(b, ast.Name)]
                return [(node, module)] + [found for base in bases for found in self.line_of(module, base)]
            if isinstance(node, ast.ImportFrom) and node.module and name in [a.asname or a.name for a in node.names]:
                return self.line_of(node.module.removeprefix("vllm.model_executor.models."),
                                    next(a.name for a in node.names if (a.asname or a.name) == name))
        return []

    def merges(self, module, name, depth=0):
        """Whether a class's hf_to_vllm_mapper, with those that it refers to, makes something else of k_proj."""
        for node, where in self.line_of(module, name):
            for statement in node.body:
                if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "hf_to_vllm_mapper":
                    text = ast.unparse(statement.value)
                    others = re.findall(r"(\w+)\.hf_to_vllm_mapper", text)
                    return ("orig_to_new_stacked" in text and "k_proj" in text) or any(
                        depth < 6 and self.merges(where, other, depth + 1) for other in others)
        return False

    def loading(self, module, name):
        for node, _ in self.line_of(module, name):
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == "load_weights":
                    text = ast.unparse(statement)
                    if "AutoWeightsLoader" not in text or "v_proj" in text or "mapper=mapper" in text:
                        return "NotRead"
                    return "Merged" if "mapper=" in text and self.merges(module, name) else "Renamed"
        return "NotRead"


def differing_classes(vllm):
    """Lines of the table that vLLM's sources contradict."""
    sources = Sources(vllm)
    registry = {a: (m, c) for a, m, c in
                re.findall(r'"(\w+)":\s*\(\s*"([\w.]+)",\s*"(\w+)",?\s*\)', (sources.models / "registry.py").read_text())}
    table = TABLE.read_text().split("kClasses = {")[1].split("kMtpClasses")[0]
    for line in table.split("ClassLine{")[1:]:
        architecture, loader = re.match(r'\s*"(\w+)",\s*\{"([^"]+)"', line).groups()
        said = next((word for word in ("Merged", "NotRead") if f", {word}}}" in re.sub(r"\s+", " ", line)), "Renamed")
        found = sources.loading(*registry[architecture]) if architecture in registry else "NotRead"
        if loader == "mapped" and said not in (found, "NotRead"):
            yield f"{architecture}: the table says {said}, vLLM's source {found}"


def check_export(args):
    expected = json.load(open(args.expect))["layers"]
    config_json = json.load(open(args.export / "config.json"))
    n_heads = config_json["num_key_value_heads"]
    config = config_of(args.export, args.source, args.vllm)
    if config.enable_mxfp_c8_quant:
        return check_mxfp8(args, config, expected, n_heads, "model.")
    modules, passed_on = load(args.export, args.source, config, expected, "model.")
    assert not [name for name in passed_on if "_cache_" in name], "scales reached the class's own loader"
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


def prepares_latent(source, native, fp8_attention):
    """"" or what stops AscendMLAImpl where a layer has fa_k.scale and plain projections. `native`: MLAPO takes weights as they
    are; `fp8_attention`: Ascend 950."""
    path = source / "vllm_ascend/attention/mla_v1.py"
    hardware = types.SimpleNamespace(supports=lambda capability: fp8_attention)
    given = {"torch_npu": types.SimpleNamespace(npu_format_cast=lambda tensor, form: tensor), "ACL_FORMAT_FRACTAL_NZ": 29,
             "get_current_hardware_profile": lambda: hardware, "HardwareCapability": types.SimpleNamespace(FP8_ATTENTION=1),
             "get_ascend_config": lambda: None, "torch": torch}
    names = ["_load_fa_quant_scales", "_process_weights_for_fused"]
    made = functions(path, ["AscendMLAImpl." + name for name in names], given)
    scale = torch.full((1, 1), 0.5)
    layer = types.SimpleNamespace(quant_kscale=1 / scale, fak_descale_float=scale, fak_descale_reciprocal=1 / scale)
    plain = lambda n: types.SimpleNamespace(weight=torch.nn.Parameter(torch.ones(n, 8)))
    this = types.SimpleNamespace(
        fa_quant_layer=True, _mlapo_uses_native_weights=native, head_padding=0, q_lora_rank=8, num_heads_padded=2, layer_name="l",
        q_proj=plain(16), fused_qkv_a_proj=plain(12), W_UK_T=torch.ones(2, 4, 4),
        vllm_config=types.SimpleNamespace(compilation_config=types.SimpleNamespace(static_forward_context={"l": layer})))
    this._load_fa_quant_scales = types.MethodType(made["AscendMLAImpl._load_fa_quant_scales"], this)
    try:
        made["AscendMLAImpl._process_weights_for_fused"](this, torch.bfloat16)
    except AttributeError as error:
        return str(error)
    return ""


def check_latent(source):
    for fp8_attention in (False, True):
        stopped = prepares_latent(source, False, fp8_attention)
        assert "weight_scale" in stopped, f"plain projections are prepared: {stopped}"
    mode = re.search(r"mlapo_weight_quant_mode = (\d) if is_native", (source / "vllm_ascend/attention/mla_v1.py").read_text())
    assert prepares_latent(source, True, True) == "" and mode[1] == "0"
    print("plain projections: without MLAPO of Ascend 950 weight_scale is missing; with it prepared, for the compiled prolog with "
          "weight_quant_mode 0 and kv_cache_quant_mode 1")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("export", type=Path, nargs="?")
    parser.add_argument("--expect", type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--vllm", type=Path)
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("--latent", action="store_true")
    args = parser.parse_args()
    if args.latent:
        return check_latent(args.source)
    if not args.classes:
        return check_export(args)
    differing = list(differing_classes(args.vllm))
    print("\n".join(differing) or "the table is as vLLM's sources have it")
    raise SystemExit(bool(differing))


if __name__ == "__main__":
    main()
