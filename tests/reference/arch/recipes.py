"""Quantised checkpoints as tools publish them: how each weight is stored, which stay as they are, and what config.json and
the files beside it say. {name: how to draw one}."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

import quantizers as q
from dice import Dice

ROUTERS = r"\.(gate|router|gate\.wg|router\.layer|router\.proj|shared_expert_gate)$"
EXPERTS_ONLY = r"^(?!.*experts\.(\d+\.|gate_up_proj|down_proj))(?!.*(input|output)_linear)"
FP8_VALUES = dict(num_bits=8, type="float", symmetric=True)


@dataclass
class Recipe:
    store: Callable  # (module, weight) -> (parts, weight that they mean), None: is left as it is
    config: Callable  # (quantised modules, modules that were left) -> (quantization_config or {}, {file: content})
    kept: str = ROUTERS + "|lm_head|embed_tokens"  # modules that are never quantised
    even: bool = False  # for whose sake widths are multiples of 32
    experts: tuple[str, ...] = ("saved",)  # ways to store experts
    fused: bool = True  # whether the format has a form for all experts in one tensor
    joint: str = ""  # before "_scale" in names of fused experts
    turned: str = "parts"  # fused experts of families that save them turned: "parts" each, "plain" all the same, "never"
    kv_names: tuple[str, str] = ("self_attn.k_scale", "self_attn.v_scale")
    input_scale: bool = False


def kept_somewhere(r: Dice, *more: str) -> str:
    """Routers, head and embeddings mostly, and another part of the model."""
    parts = [part for part, share in ((ROUTERS, 0.9), ("lm_head", 0.8), ("embed_tokens", 0.95)) if r.flag(share)]
    some = ("self_attn", r"\.o_proj$", r"layers\.0\.", "shared_expert|shared_mlp", "linear_attn", "mamba|mixer.in_proj",
            r"kv_b_proj$", r"in_proj_ba$|in_proj_[ab]$", r"mlp\.(gate|up|down)_proj$")
    parts += r.sample(some, r.choice((0, 0, 1, 2))) + list(more)
    return "|".join(parts) or "^$"


def fp8_config(r: Dice, **more):
    key = r.choice(("modules_to_not_convert", "ignored_layers"))
    return lambda done, left: (dict(quant_method="fp8", fmt="e4m3", **more, **({key: left} if r.flag(0.8)
                                                                                else {})), {})


def fp8_block(r: Dice) -> Recipe:
    rows, columns = r.choice(((128, 128), (128, 128), (16, 16), (32, 32)))
    dtype = r.choice((torch.float32, torch.bfloat16))
    return Recipe(lambda _, w: q.fp8(w, rows, columns, "weight_scale_inv", dtype),
                  fp8_config(r, activation_scheme="dynamic", weight_block_size=[rows, columns],
                             **r.some(scale_fmt=("ue8m0",))), kept_somewhere(r), experts=("saved", "single", "fused"))


def fp8_static(r: Dice) -> Recipe:
    """Mistral's: one scale by the name of the blocks', and one of the activations."""
    return Recipe(lambda _, w: q.fp8_tensor(w, "weight_scale_inv"),
                  fp8_config(r, activation_scheme="static", weight_block_size=None), kept_somewhere(r),
                  experts=("saved", "fused", "single"), input_scale=True)


def fbgemm(r: Dice) -> Recipe:
    return Recipe(lambda _, w: q.fp8_channel(w, torch.float32),
                  lambda done, left: (dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0,
                                           modules_to_not_convert=left), {}), kept_somewhere(r))


# ------------------------------------------------------------------------------------------------ compressed-tensors
def compressed(r: Dice, format_: str, weights: dict, activations: dict | None = None):
    group = dict(targets=["Linear"], weights=dict(dynamic=False, **weights), input_activations=activations,
                 output_activations=None, **r.some(format=(format_,)))
    regex = r.choice((["re:.*mlp.gate$", "re:.*router.*"], []))
    kv = dict(num_bits=8, type="float", strategy="tensor", dynamic=False, symmetric=True)
    return lambda done, left: (dict(quant_method="compressed-tensors", quantization_status="compressed", format=format_,
                                    config_groups=dict(group_0=group), ignore=[*regex, *left],
                                    kv_cache_scheme=r.choice((None, kv)), global_compression_ratio=None), {})


def ct_channel(r: Dice) -> Recipe:
    return Recipe(lambda _, w: q.fp8_channel(w),
                  compressed(r, "float-quantized", dict(FP8_VALUES, strategy="channel"),
                             dict(FP8_VALUES, strategy="token", dynamic=True)), kept_somewhere(r),
                  experts=("saved", "single", "fused"))


def ct_tensor(r: Dice) -> Recipe:
    return Recipe(lambda _, w: q.fp8_tensor(w, shape=(1,)),
                  compressed(r, "float-quantized", dict(FP8_VALUES, strategy="tensor"),
                             dict(FP8_VALUES, strategy="tensor", dynamic=False)), kept_somewhere(r), input_scale=True,
                  experts=("saved", "single"))


def ct_block(r: Dice) -> Recipe:
    rows, columns = r.choice(((128, 128), (32, 32)))
    return Recipe(lambda _, w: q.fp8(w, rows, columns),
                  compressed(r, "float-quantized", dict(FP8_VALUES, strategy="block", block_structure=[rows, columns]),
                             dict(FP8_VALUES, strategy="group", group_size=columns, dynamic=True)), kept_somewhere(r),
                  experts=("saved", "single", "fused"))


def ct_int8(r: Dice) -> Recipe:
    return Recipe(lambda _, w: q.int8_channel(w),
                  compressed(r, "int-quantized", dict(num_bits=8, type="int", strategy="channel", symmetric=True),
                             dict(num_bits=8, type="int", strategy="token", dynamic=True, symmetric=True)),
                  kept_somewhere(r), experts=("saved", "single"))


def ct_packed(r: Dice) -> Recipe:
    bits, group, symmetric = r.choice((4, 4, 8)), r.choice((32, 16, -1)), r.flag()
    order = shuffled(r) if r.flag(0.3) and group > 0 else None
    args = dict(num_bits=bits, type="int", symmetric=symmetric, actorder="group" if order else None,
                **(dict(strategy="channel") if group < 0 else dict(strategy="group", group_size=group)))
    experts_only = r.flag(0.3)
    return Recipe(lambda _, w: q.packed(w, bits, group, symmetric, order), compressed(r, "pack-quantized", args),
                  EXPERTS_ONLY if experts_only else kept_somewhere(r), even=True, experts=("saved", "single", "fused"),
                  turned="plain")


def shuffled(r: Dice) -> Callable:
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    return lambda columns, group: q.in_order(generator, columns, group)


def ct_nvfp4(r: Dice) -> Recipe:
    args = dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)
    return Recipe(lambda _, w: q.nvfp4(w, True), compressed(r, "nvfp4-pack-quantized", args, dict(args, dynamic="local")),
                  kept_somewhere(r), even=True, experts=("saved", "single"), turned="plain")


def ct_mxfp4(r: Dice) -> Recipe:
    args = dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype="torch.uint8")
    return Recipe(lambda _, w: q.mxfp4(w), compressed(r, "mxfp4-pack-quantized", args), kept_somewhere(r), even=True,
                  experts=("saved", "single"), turned="plain")


def ct_mixed(r: Dice) -> Recipe:
    """Attention in FP8, the rest in NVFP4."""
    attention = "re:.*(self_attn|linear_attn|mamba).*"

    def config(done, left):
        groups = dict(group_0=dict(targets=[attention], format="float-quantized", weights=dict(FP8_VALUES, strategy="channel")),
                      group_1=dict(targets=["re:.*mlp.*"], format="nvfp4-pack-quantized",
                                   weights=dict(num_bits=4, type="float", strategy="tensor_group", group_size=16)))
        return dict(quant_method="compressed-tensors", format="mixed-precision", config_groups=groups,
                    ignore=left), {}

    return Recipe(lambda m, w: q.fp8_channel(w) if re.search(attention[3:], m) else q.nvfp4(w, True), config,
                  even=True, experts=("saved", "single"), turned="plain")


# ------------------------------------------------------------------------------------------------ ModelOpt
def modelopt(r: Dice, algorithm: str, bits: int, **more):
    """In config.json, in a file beside it, or in both, as different versions of it do."""
    place, kv = r.choice(("config", "file", "both")), r.choice(("FP8", None))

    def config(done, left):
        group = dict(targets=["Linear"], weights=dict(dynamic=False, num_bits=bits, type="float", **more))
        inside = dict(quant_method="modelopt", quant_algo=algorithm, ignore=left,
                      config_groups=dict(group_0=group), producer=dict(name="modelopt", version="0.39.0"))
        if kv:
            inside["kv_cache_scheme"] = dict(dynamic=False, num_bits=8, type="float")
        beside = dict(producer=dict(name="modelopt"), quantization=dict(
            quant_algo=algorithm, kv_cache_quant_algo=kv, exclude_modules=left, **more))
        return inside if place != "file" else {}, {"hf_quant_config.json": beside} if place != "config" else {}

    return config


def modelopt_fp8(r: Dice) -> Recipe:
    return Recipe(lambda _, w: q.fp8_tensor(w), modelopt(r, "FP8", 8), kept_somewhere(r), experts=("saved", "single"),
                  joint="_weight", input_scale=True, kv_names=("self_attn.k_proj.k_scale", "self_attn.v_proj.v_scale"))


def modelopt_nvfp4(r: Dice) -> Recipe:
    more = r.choice(("", "", "shared_expert|self_attn|linear_attn"))
    return Recipe(lambda _, w: q.nvfp4(w, False), modelopt(r, "NVFP4", 4, group_size=16),
                  kept_somewhere(r, *([more] if more else [])), even=True, experts=("saved", "single"), joint="_weight",
                  input_scale=True, kv_names=("self_attn.k_proj.k_scale", "self_attn.v_proj.v_scale"))


def modelopt_mixed(r: Dice) -> Recipe:
    attention = "self_attn|linear_attn|mamba"

    def config(done, left):
        layers = {m: dict(quant_algo="FP8") if re.search(attention, m) else dict(quant_algo="W4A16_NVFP4", group_size=16)
                  for m in done}
        beside = dict(quantization=dict(quant_algo="MIXED_PRECISION", kv_cache_quant_algo="FP8", quantized_layers=layers,
                                        exclude_modules=["mtp*"]))
        return dict(quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=layers, ignore=left), \
            {"hf_quant_config.json": beside}

    return Recipe(lambda m, w: q.fp8_tensor(w) if re.search(attention, m) else q.nvfp4(w, False), config, even=True,
                  experts=("saved", "single"), joint="_weight")


# ------------------------------------------------------------------------------------------------ AWQ, GPTQ, AutoRound
def awq(r: Dice) -> Recipe:
    group = r.choice((16, 32, -1))
    return Recipe(lambda _, w: q.awq(w, group),
                  lambda done, left: (dict(quant_method="awq", bits=4, group_size=group, version="gemm", zero_point=True,
                                           modules_to_not_convert=left or None), {}), kept_somewhere(r), even=True,
                  experts=("saved", "single"), fused=False)


def gptq(r: Dice) -> Recipe:
    """With rules of GPTQModel for some modules: other bits and groups, or not at all."""
    bits, group, symmetric, second = r.choice((4, 4, 8)), r.choice((32, 16, -1)), r.flag(), r.flag(0.3)
    order = shuffled(r) if r.flag(0.4) and group > 0 else None
    never, other = r.choice(("", r"k_proj$", r"layers\.0\.")), r.choice(("", r"down_proj$"))
    settings = (8, 32) if bits == 4 else (4, 16)

    def store(module, weight):
        if never and re.search(never, module):
            return None
        of = settings if other and re.search(other, module) else (bits, group)
        return q.gptq(weight, *of, symmetric, 0 if second else 1, order, r.flag(0.8))

    def config(done, left):
        rules = ({rf"-:.*{never}": {}} if never else {}) | \
            ({rf"+:.*{other}": dict(bits=settings[0], group_size=settings[1])} if other else {})
        out = dict(quant_method="gptq", bits=bits, group_size=group, desc_act=bool(order), sym=symmetric, lm_head=False,
                   checkpoint_format="gptq_v2" if second else "gptq", **(dict(dynamic=rules) if rules else {}))
        return (out, {}) if r.flag(0.7) else ({}, {"quantize_config.json": out})

    return Recipe(store, config, kept_somewhere(r), even=True, experts=("saved", "single"), fused=False)


def auto_round(r: Dice) -> Recipe:
    """Every layer with its own bits, or none."""
    packing = r.choice(("auto_round:auto_gptq", "auto_round:auto_awq", "auto_round"))
    bits, group, symmetric, eight = 4, r.choice((32, 16)), r.flag(), r.choice(("", r"o_proj$"))
    bits_of = lambda module: 8 if eight and re.search(eight, module) and packing != "auto_round:auto_awq" else bits

    def store(module, weight):
        if packing.endswith("awq"):
            return q.awq(weight, group)
        return q.gptq(weight, bits_of(module), group, symmetric, 0 if packing == "auto_round" else 1, None, False)

    def config(done, left):
        extra = {m: dict(bits=bits_of(m), group_size=group) for m in done if bits_of(m) != bits} | \
            {m: dict(bits=16, data_type="float") for m in left}
        return dict(quant_method="auto-round", bits=bits, group_size=group, sym=symmetric, data_type="int",
                    packing_format=packing, extra_config=extra, autoround_version="0.8.0"), {}

    return Recipe(store, config, kept_somewhere(r), even=True, experts=("saved", "single"), fused=False)


# ------------------------------------------------------------------------------------------------ Quark, gpt-oss
def quark(r: Dice, weight: dict):
    return lambda done, left: (dict(
        quant_method="quark", quant_mode="eager_mode", exclude=left, layer_quant_config={},
        global_quant_config=dict(weight=weight, bias=None, input_tensors=None, output_tensors=None),
        export=dict(kv_cache_group=["*k_proj", "*v_proj"], pack_method="reorder", weight_format="real_quantized")), {})


def quark_fp8(r: Dice) -> Recipe:
    scheme = r.choice(("per_tensor", "per_channel"))
    return Recipe(lambda _, w: q.fp8_tensor(w) if scheme == "per_tensor" else q.fp8(w, 1, w.shape[-1]),
                  quark(r, dict(dtype="fp8_e4m3", qscheme=scheme)), kept_somewhere(r), experts=("saved", "single"),
                  input_scale=True, kv_names=("self_attn.k_proj.output_scale", "self_attn.v_proj.output_scale"))


def quark_mxfp4(r: Dice) -> Recipe:
    return Recipe(lambda _, w: q.mxfp4(w, ("weight", "weight_scale")),
                  quark(r, dict(dtype="fp4", qscheme="per_group", group_size=32, scale_format="e8m0")), kept_somewhere(r),
                  even=True, experts=("saved", "single"), turned="plain")


def mxfp4_blocks(r: Dice) -> Recipe:
    """gpt-oss: experts alone."""
    return Recipe(lambda _, w: q.mxfp4(w, ("blocks", "scales"), blocks=True) if w.ndim == 3 else None,
                  lambda done, left: (dict(quant_method="mxfp4", modules_to_not_convert=[
                      "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]), {}),
                  r"linear", even=True, turned="plain")


def mxfp8(r: Dice) -> Recipe:
    return Recipe(lambda _, w: q.mxfp8(w), modelopt(r, "MXFP8", 8, group_size=32), kept_somewhere(r), even=True,
                  experts=("saved", "single"), turned="never")


ALL = {f.__name__: f for f in (fp8_block, fp8_static, fbgemm, ct_channel, ct_tensor, ct_block, ct_int8, ct_packed, ct_nvfp4,
                               ct_mxfp4, ct_mixed, modelopt_fp8, modelopt_nvfp4, modelopt_mixed, mxfp8, awq, gptq, auto_round,
                               quark_fp8, quark_mxfp4, mxfp4_blocks)}
