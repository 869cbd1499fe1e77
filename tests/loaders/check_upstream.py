"""Do the faults that docs/upstream reports still happen? Functions of the packages' own sources, unpacked or installed, on a CPU:

    python3 tests/loaders/check_upstream.py --vllm VLLM --auto-round AUTO_ROUND --sglang SGLANG --flashinfer FLASHINFER

Each names the folder of the package itself (.../site-packages/vllm); needs torch and compressed-tensors. Exit status: 0, every report is
true of these versions; 1, one is not (an assertion says which).
"""
import argparse
import enum
import logging
import re
from pathlib import Path
from types import SimpleNamespace

import torch

from own_functions import functions

LOGGER = SimpleNamespace(warning_once=lambda *_: None, debug_once=lambda *_: None)


def offered(document):
    """The names that the Python code of a document of docs/upstream defines: what is offered is what runs."""
    text = (Path(__file__).parents[2] / "docs/upstream" / document).read_text()
    names = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    return names, text


def vllm_classes(vllm):
    """docs/upstream/vllm-scales-test.md"""
    names, text = offered("vllm-scales-test.md")
    found = names["classes_without_scales"](vllm / "model_executor/models")
    print("vLLM, Attention without quant_config:", ", ".join(found))
    assert ", ".join(f"`{name}`" for name in found) in text.splitlines(), "the document has another list"


def auto_round_nvfp4(vllm, auto_round):
    """docs/upstream/auto-round-nvfp4.md"""
    export = auto_round / "export/export_to_llmcompressor/export_to_static_fp.py"
    scheme = functions(export, ["_construct_nvfp4_kv_scheme"], {"logger": LOGGER})["_construct_nvfp4_kv_scheme"]().model_dump(mode="json")
    print("AutoRound writes kv_cache_scheme:", {key: scheme[key] for key in ("num_bits", "type", "strategy", "group_size", "dynamic")})

    method = vllm / "model_executor/layers/quantization/compressed_tensors/compressed_tensors.py"
    strategy = enum.Enum("QuantizationStrategy", {"TENSOR": "tensor", "ATTN_HEAD": "attn_head", "TENSOR_GROUP": "tensor_group"})
    name = "CompressedTensorsKVCacheMethod.validate_kv_cache_scheme"
    validate = functions(method, [name], {"QuantizationStrategy": strategy})[name]
    validate({"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": False})
    try:
        validate(scheme)
        raise AssertionError("vLLM takes the scheme")
    except NotImplementedError as error:
        print("vLLM:", error)

    remap = functions(vllm / "model_executor/model_loader/weight_utils.py", ["maybe_remap_kv_scale_name"], {"re": re, "logger": LOGGER})
    there = {"model.layers.0.self_attn.attn.k_scale": None}
    for tensor, found in (("k_scale", "model.layers.0.self_attn.attn.k_scale"), ("k_global_scale", "model.layers.0.self_attn.k_global_scale")):
        made = remap["maybe_remap_kv_scale_name"]("model.layers.0.self_attn." + tensor, there)
        assert made == found, made
        print(f"vLLM looks for {tensor} as {made}:", "a parameter" if made in there else "no parameter")

    own = "_nvfp4_global_scale"
    source = (auto_round / "experimental/kv_cache.py").read_text()
    assert "``global_scale = 1 / k_scale``" in source and "amax / 2688" in source and own in source, "AutoRound's convention"


def attention(q, k, v):
    return torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1) @ v


class Wrapper:
    """FlashInfer's decode on one head, as far as scales go: `sm_scale *= k_scale`, `out *= v_scale` (checked in its source)."""

    def forward(self, q, cache, sm_scale, logits_soft_cap, k_scale, v_scale):
        k, v = (part[:, 0].float() for part in cache)
        return torch.softmax(q[:, 0].float() @ k.T * (sm_scale * k_scale), -1) @ v * v_scale


class Fields(SimpleNamespace):
    """An object whose fields that nobody set are false."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def served(sglang, dtype, scales, q, k, v):
    """One decoding step of SGLang's FlashInfer backend with a cache of this dtype."""
    own = functions(sglang / "srt/layers/quantization/kv_cache.py",
                    ["BaseKVCacheMethod.create_weights", "BaseKVCacheMethod.process_weights_after_loading"],
                    {"torch": torch, "is_fp8_fnuz": lambda: False})
    layer = Fields(layer_id=0, tp_q_head_num=1, head_dim=k.shape[1], scaling=k.shape[1] ** -0.5)
    own["BaseKVCacheMethod.create_weights"](None, layer)
    layer.k_scale.data.fill_(scales[0])
    layer.v_scale.data.fill_(scales[1])
    own["BaseKVCacheMethod.process_weights_after_loading"](None, layer)

    def store(k, v, k_cache, v_cache, loc, **_):
        k_cache[loc], v_cache[loc] = k, v

    pool_names = {"unwrap_write_loc": lambda loc: (loc, None, None), "maybe_detect_oob": lambda *_: None, "_set_kv_buffer_impl": store}
    pool_functions = functions(sglang / "srt/mem_cache/memory_pool.py",
                               ["MHATokenToKVPool.set_kv_buffer", "MHATokenToKVPool._store_kv_layer"], pool_names)
    stored = torch.uint8 if dtype.itemsize == 1 else dtype
    buffers = [torch.zeros(len(k), 1, k.shape[1], dtype=stored) for _ in "kv"]
    pool = Fields(dtype=dtype, store_dtype=stored, start_layer=0, size=len(k), page_size=1, k_buffer=buffers[:1], v_buffer=buffers[1:],
                  _check_physical_write_loc=lambda *_: None)
    pool._store_kv_layer = lambda *args: pool_functions["MHATokenToKVPool._store_kv_layer"](pool, *args)
    pool.set_kv_buffer = lambda *args: pool_functions["MHATokenToKVPool.set_kv_buffer"](pool, *args)
    pool.get_kv_buffer = lambda _: [buffer.view(dtype) for buffer in buffers]

    names = {"KVWriteLoc": SimpleNamespace(for_layer=lambda batch, layer, swa_loc: batch.loc)}
    wanted = ["FlashInferAttnBackend." + name for name in ("forward_decode", "_kv_write_scales", "_get_wrapper_idx")]
    backend_functions = functions(sglang / "srt/layers/attention/flashinfer_backend.py", wanted, names)
    backend = Fields(num_wrappers=1, token_to_kv_pool=pool, forward_metadata=Fields(decode_wrappers=[Wrapper()]),
                     kv_cache_quant_method=SimpleNamespace(needs_global_scale=lambda: False))
    for name in wanted[1:]:
        setattr(backend, name.split(".")[1], lambda layer, f=backend_functions[name]: f(backend, layer))
    rows = [x.to(torch.bfloat16).reshape(len(x), 1, -1).clone() for x in (q, k, v)]
    return backend_functions[wanted[0]](backend, *rows, layer, Fields(loc=torch.arange(len(k))))


def sglang_bf16(sglang, flashinfer):
    """docs/upstream/sglang-bf16-cache.md"""
    decode = (flashinfer / "decode.py").read_text()
    assert "sm_scale *= k_scale" in decode and "out *= v_scale" in decode, "FlashInfer applies scales otherwise"
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 64), torch.randn(32, 64), torch.randn(32, 64)
    right = attention(*(x.to(torch.bfloat16).float() for x in (q, k, v)))
    errors = {}
    for dtype in (torch.float8_e4m3fn, torch.bfloat16):
        for scales in ((1.0, 1.0), (0.03, 0.02)):
            made = served(sglang, dtype, scales, q, k, v)
            errors[dtype, scales] = float((made - right).norm() / right.norm())
            print(f"SGLang, cache {dtype}, k_scale {scales[0]}, v_scale {scales[1]}: relative error {errors[dtype, scales]:.3f}")
    assert max(errors[torch.float8_e4m3fn, s] for s in ((1.0, 1.0), (0.03, 0.02))) < 0.1, "FP8 should be right"
    assert errors[torch.bfloat16, (1.0, 1.0)] < 0.01, "BF16 without scales should be right"
    assert errors[torch.bfloat16, (0.03, 0.02)] > 0.9, "a BF16 cache is right with scales: the report is no longer true"


def main():
    parser = argparse.ArgumentParser()
    for package in ("vllm", "auto-round", "sglang", "flashinfer"):
        parser.add_argument("--" + package, type=Path, required=True)
    args = parser.parse_args()
    logging.disable()
    vllm_classes(args.vllm)
    auto_round_nvfp4(args.vllm, args.auto_round)
    sglang_bf16(args.sglang, args.flashinfer)


if __name__ == "__main__":
    main()
