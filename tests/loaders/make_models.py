"""make_models.py GOLDENS OUT: tiny checkpoints that the goldens lack; needs torch and safetensors.

mla           the golden deepseek_v3 with the head dimensions that servers' MLA kernels insist on
<case>_heads  goldens with heads of a number and width that a server takes
llama_awq     the golden llama_llama3 with its linear layers in AWQ's four-bit groups, from which no server takes KV scales
<case>_two    goldens with two of their three layers
<case>_mtp    goldens with the MTP layer of tests/arch/mtp among their tensors
<model>_256  llama_llama3 and qwen2 with sizes that blocks of 128 divide, and the same weights in FP8 blocks (<model>_fp8), of
              compressed-tensors, ModelOpt (modelopt: FP8, nvfp4) and Quark
Each has the golden's token sequences in golden.json.
"""

import json
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

MTP = "glm4_moe qwen3_5 qwen3_next mimo_v2 ernie4_5_moe".split()  # the config class of MiMo comes with its files
GROUP = 16  # input channels per scale
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # which output channel each nibble of AWQ's int32 holds, lowest first


def read(folder):
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file), load_file(os.path.join(folder, "model.safetensors"))


def write(folder, config, tensors):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "model.safetensors"), {"format": "pt"})


def mla(config, tensors):
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    config |= {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    config |= {"qk_head_dim": 192, "head_dim": 64}
    config["rope_scaling"] = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 32,
                              "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}  # SGLang's CPU engine asks for it
    q_rank = config["q_lora_rank"]
    shapes = {
        "q_b_proj.weight": (heads * 192, q_rank),
        "kv_a_proj_with_mqa.weight": (512 + 64, hidden),
        "kv_a_layernorm.weight": (512,),
        "kv_b_proj.weight": (heads * 256, 512),
        "o_proj.weight": (hidden, heads * 128),
    }
    generator = torch.Generator().manual_seed(1)
    for name, tensor in tensors.items():
        for suffix, shape in shapes.items():
            if name.endswith("self_attn." + suffix):
                tensors[name] = (torch.randn(shape, generator=generator) * 0.3).to(tensor.dtype)
    return config, tensors


def pack(values):
    """[rows, outputs] of 0..15 to int32 [rows, outputs / 8]."""
    nibbles = values.to(torch.int64).reshape(values.shape[0], -1, 8)
    words = sum(nibbles[:, :, channel] << (4 * place) for place, channel in enumerate(ORDER))
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


def awq(config, tensors):
    out = {}
    for name, tensor in tensors.items():
        if ".layers." not in name or tensor.dim() != 2:
            out[name] = tensor.to(torch.float16)
            continue
        weight = tensor.float().T.reshape(-1, GROUP, tensor.shape[0])  # [groups, GROUP, outputs]
        scales = (weight.abs().amax(1) / 7).clamp(min=1e-6).half()
        quantised = (weight / scales.float()[:, None] + 8).round().clamp(0, 15).reshape(-1, tensor.shape[0])
        stem = name.removesuffix(".weight")
        out[stem + ".qweight"] = pack(quantised)
        out[stem + ".qzeros"] = pack(torch.full_like(scales, 8))
        out[stem + ".scales"] = scales
    quantization = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}
    return config | {"dtype": "float16", "quantization_config": quantization}, out


def fit(tensor, shape):
    """Repeated and cut: its own values wherever it can."""
    for dim, size in enumerate(shape):
        tensor = tensor.index_select(dim, torch.arange(size) % tensor.shape[dim])
    return tensor.clone()


# Query heads, KV heads and their width, where a server cannot take the golden's.
HEADS = {name: (6, 2, 8) for name in "cohere cohere2 exaone4 granite llava olmo2 qwen2 qwen2_vl qwen2_5_vl smollm3".split()} | {
    "nemotron_h": (4, 2, 8),  # vLLM: 12 is no multiple of 8
    "gemma3_vl": (2, 1, 64),  # vLLM: with images only Triton takes an FP8 cache, from 32
    "olmoe": (4, 4, 8),  # SGLang norms keys as if there were as many as queries
}


def with_heads(config, tensors, heads, kv_heads, width):
    text = config.get("text_config", config)
    was = text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"]
    text |= {"num_attention_heads": heads, "num_key_value_heads": kv_heads}
    if "head_dim" in text:
        text["head_dim"] = width
    if "mrope_section" in (text.get("rope_parameters") or {}):
        text["rope_parameters"]["mrope_section"] = [1, 1, 2]
    rows = {"q_proj": heads * width, "k_proj": kv_heads * width, "v_proj": kv_heads * width, "o_proj": text["hidden_size"]}
    for name, tensor in tensors.items():
        module = name.split(".")[-2]
        if "vision" in name or "visual" in name:
            continue
        if module in rows:
            shape = (rows[module], heads * width if module == "o_proj" else tensor.shape[-1])
            tensors[name] = fit(tensor, shape[: tensor.dim()])
        elif module in ("q_norm", "k_norm"):  # of each head, or of all together
            tensors[name] = fit(tensor, (width if len(tensor) == was else rows[module[0] + "_proj"],))
    return config, tensors


def two_layers(config, tensors):
    """SGLang finds attention by an interval, so the third layer cannot be a second attention layer."""
    text = config["text_config"]
    text |= {"num_hidden_layers": 2, "layer_types": text["layer_types"][:2]}
    return config, {name: tensor for name, tensor in tensors.items() if ".layers.2." not in name}


def wide(config, tensors):
    """Sizes that blocks of 128 divide, alone and in the layers that servers fuse."""
    size, heads, kv_heads, width = 256, 4, 2, 64
    config |= {"hidden_size": size, "intermediate_size": size, "num_attention_heads": heads, "num_key_value_heads": kv_heads}
    if "head_dim" in config:
        config["head_dim"] = width
    for name, tensor in tensors.items():
        rows = kv_heads * width if name.split(".")[-2] in ("k_proj", "v_proj") else size
        rows = len(tensor) if "embed" in name else rows
        tensors[name] = fit(tensor, (rows, size)[: tensor.dim()])
    return config, tensors


def e4m3(x):
    return x.clamp(-448, 448).to(torch.float8_e4m3fn)


def one_scale(weight):
    scale = weight.abs().amax() / 448
    return {"weight": e4m3(weight / scale), "weight_scale": scale, "input_scale": torch.tensor(0.05)}


def by_channel(weight):
    scale = weight.abs().amax(1, keepdim=True) / 448
    return {"weight": e4m3(weight / scale), "weight_scale": scale}


def by_block(weight):
    tiles = weight.reshape(weight.shape[0] // 128, 128, weight.shape[1] // 128, 128)
    scale = tiles.abs().amax((1, 3)) / 448
    return {"weight": e4m3(tiles / scale[:, None, :, None]).reshape(weight.shape), "weight_scale_inv": scale}


def nvfp4(weight):
    """Groups of 16 with E4M3 scales, which one float32 scale brings into range."""
    groups = weight.reshape(weight.shape[0], -1, 16)
    second = weight.abs().amax() / (6 * 448)
    scale = e4m3(groups.abs().amax(2) / 6 / second)
    real = (groups / (scale.float() * second)[..., None]).nan_to_num()
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = ((real.abs()[..., None] - values).abs().argmin(-1) + 8 * (real < 0)).reshape(weight.shape)
    return {"weight": (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8), "weight_scale": scale,
            "weight_scale_2": second, "input_scale": torch.tensor(0.05)}


def numbers(**more):
    return {"num_bits": 8, "type": "float", "symmetric": True, **more}


COMPRESSED = {
    "quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": numbers(strategy="channel", dynamic=False),
                                  "input_activations": numbers(strategy="token", dynamic=True)}},
}
NVFP4 = {"num_bits": 4, "type": "float", "dynamic": False, "group_size": 16}
MODELOPT = {"quant_method": "modelopt", "ignore": ["lm_head"], "producer": {"name": "modelopt", "version": "0.46.0"}}
QUARK_TENSOR = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False, "symmetric": True, "ch_axis": None,
                "group_size": None, "observer_cls": "PerTensorMinMaxObserver", "round_method": "half_even",
                "scale_type": "float"}
QUARK = {
    "quant_method": "quark", "quant_mode": "eager_mode", "exclude": ["lm_head"], "layer_quant_config": {},
    "layer_type_quant_config": {}, "algo_config": None, "kv_cache_quant_config": {}, "softmax_quant_spec": None,
    "export": {"kv_cache_group": [], "min_kv_scale": 0.0, "pack_method": "reorder", "weight_format": "real_quantized"},
    "global_quant_config": {"weight": QUARK_TENSOR, "input_tensors": QUARK_TENSOR, "output_tensors": None, "bias": None},
}
QUANTISED = {
    "fp8": (by_block, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}),
    "compressed": (by_channel, COMPRESSED),
    "modelopt": (one_scale, MODELOPT | {"quant_algo": "FP8", "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "dynamic": False},
        "input_activations": {"num_bits": 8, "type": "float", "dynamic": False}}}}),
    "nvfp4": (nvfp4, MODELOPT | {"quant_algo": "NVFP4", "group_size": 16, "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": NVFP4, "input_activations": NVFP4}}}),
    "quark": (one_scale, QUARK),
}


def quantised(config, tensors, quantize, declared):
    out = {}
    for name, tensor in tensors.items():
        if ".layers." not in name or tensor.dim() != 2:
            out[name] = tensor
            continue
        stored = quantize(tensor.float())
        out |= {name.removesuffix("weight") + last: value for last, value in stored.items()}
    return config | {"quantization_config": declared}, out


def with_mtp(goldens, name):
    """Published files say how many there are."""
    config, tensors = read(os.path.join(goldens, name))
    mtp = load_file(os.path.join(goldens, "..", "mtp", name, "mtp.safetensors"))
    config.setdefault("mtp_num_hidden_layers" if name == "qwen3_5" else "num_nextn_predict_layers", 1)
    return config, tensors | mtp


def main(goldens, out):
    def made(name, golden, model):
        folder = os.path.join(out, name)
        write(folder, *model)
        shutil.copy(os.path.join(goldens, golden, "golden.json"), folder)

    def golden(name):
        return read(os.path.join(goldens, name))

    made("mla", "deepseek_v3", mla(*golden("deepseek_v3")))
    made("llama_awq", "llama_llama3", awq(*golden("llama_llama3")))
    for name, heads in HEADS.items():
        made(f"{name}_heads", name, with_heads(*golden(name), *heads))
    for name in ("qwen3_5_vl", "qwen3_5_moe_vl"):
        made(name + "_two", name, two_layers(*golden(name)))
    for name in MTP:
        made(name + "_mtp", name, with_mtp(goldens, name))
    for model, base, methods in (("llama", "llama_llama3", QUANTISED), ("qwen2", "qwen2", ("fp8", "modelopt"))):
        made(model + "_256", base, wide(*golden(base)))
        for method in methods:
            made(f"{model}_{method}", base, quantised(*wide(*golden(base)), *QUANTISED[method]))


if __name__ == "__main__":
    main(*sys.argv[1:])
