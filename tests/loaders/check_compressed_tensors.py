"""What can compressed-tensors say of a KV cache, and does it read an export? Its own code, on a tiny Llama:

    PYTHONPATH=compressed_tensors-0.20.1 python3 tests/loaders/check_compressed_tensors.py [EXPORT]

EXPORT is a folder of 'kvcal export --to vllm' of a plain model. Needs torch, transformers, safetensors, pydantic, loguru and psutil.
transformers 5.24 calls the cache 'cache', which compressed-tensors 0.20.1 does not know: the attention here has the older name.

Exit status: 0, one scheme goes to all layers whatever is ignored, groups by layer have formats of their own and round queries, and the
export's scheme makes parameters for exactly its tensors; 1, not so.
"""
import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention

from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config

FP8 = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": False}
FORMATS = {"fp8": FP8, "int8": FP8 | {"type": "int"},
           "nvfp4": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True, "dynamic": "local"}}
forward = LlamaAttention.forward


def forward_as_before(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
    return forward(self, hidden_states, position_embeddings, attention_mask, past_key_values, **kwargs)


def scales(n_layers, config):
    """Format and names of the scales of each layer's attention."""
    model = AutoModelForCausalLM.from_config(LlamaConfig(
        hidden_size=64, intermediate_size=64, num_hidden_layers=n_layers, num_attention_heads=4, num_key_value_heads=2, vocab_size=32))
    block = {"quant_method": "compressed-tensors", "format": "dense", "quantization_status": "compressed", "config_groups": {}, "ignore": []}
    apply_quantization_config(model.to(torch.bfloat16), QuantizationConfig.model_validate(block | config))
    found = []
    for name, module in model.named_modules():
        if name.endswith("self_attn"):
            scheme = getattr(module, "quantization_scheme", None)
            found.append((scheme and (scheme.input_activations.num_bits, scheme.input_activations.type),
                          sorted(key for key, _ in module.named_parameters() if key.endswith("_scale"))))
    return found


def main():
    LlamaAttention.forward = forward_as_before
    kv = ((8, "float"), ["k_scale", "v_scale"])
    assert scales(3, {"kv_cache_scheme": FP8, "ignore": ["model.layers.1.self_attn"]}) == [kv] * 3
    for name, scheme in FORMATS.items():
        groups = {"a": {"targets": ["model.layers.0.self_attn"], "input_activations": FP8},
                  "b": {"targets": ["model.layers.2.self_attn"], "input_activations": scheme}}
        first, second, third = scales(3, {"config_groups": groups})
        assert second == (None, []) and first[0] == (8, "float") and third[0] == (scheme["num_bits"], scheme["type"])
        assert any(scale.startswith("q_") for scale in third[1]), third
    for wrong in ([FP8, FP8], {"model.layers.0.self_attn": FP8}):
        try:
            QuantizationConfig.model_validate({"kv_cache_scheme": wrong})
            raise AssertionError("a scheme for each layer")
        except ValueError:
            pass
    print("one kv_cache_scheme for all layers; groups by layer round queries")
    for folder in map(Path, sys.argv[1:]):
        quantization = json.load(open(folder / "config.json"))["quantization_config"]
        with safe_open(folder / "model-kv-scales.safetensors", "pt") as file:
            written = {name: file.get_tensor(name) for name in file.keys()}
        layers = sorted({int(name.split(".layers.")[1].split(".")[0]) for name in written})
        made = scales(len(layers), quantization)
        assert all(layer == kv for layer in made), made
        wanted = {name for name in written if not name.endswith(".q_scale")}
        assert len(wanted) == 2 * len(layers) and all(tensor.shape == (1,) for tensor in written.values())
        print(f"{folder}: {len(layers)} layers, {len(wanted)} parameters, as its scheme makes them")


if __name__ == "__main__":
    main()
