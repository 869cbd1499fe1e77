"""make_models.py GOLDENS OUT: two tiny checkpoints that the goldens lack; needs torch and safetensors.

mla        the golden deepseek_v3 with the head dimensions that servers' MLA kernels insist on
llama_awq  the golden llama_llama3 with its linear layers in AWQ's four-bit groups, from which no server takes KV scales
"""

import json
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

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


def main(goldens, out):
    write(os.path.join(out, "mla"), *mla(*read(os.path.join(goldens, "deepseek_v3"))))
    write(os.path.join(out, "llama_awq"), *awq(*read(os.path.join(goldens, "llama_llama3"))))


if __name__ == "__main__":
    main(*sys.argv[1:])
