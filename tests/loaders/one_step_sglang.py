"""Whether SGLang applies the scales that a checkpoint has: its own functions on one layer, for check_scale_use.py."""

import functools
import types

import torch
import triton_on_cpu  # first: it sets what Triton reads when it is imported
from check_cache_types import Silent, sglang as type_of_sglang
from one_step import HEADS, LATENT, N, RANK, WIDTH, Fields, anything, attention, bound, in_class, rows, verdict
from own_functions import functions
from triton_on_cpu import E4M3, rounded, stand_in


class Sglang:
    LINE = "python3 -m sglang.launch_server --model-path m"
    FLAGS = ["", "auto", "fp8_e4m3", "fp8_e5m2", "bfloat16"]
    BACKENDS = {False: ["flashinfer", "triton", "fa3", "trtllm_mha", "torch_native"], True: ["flashinfer", "triton", "fa3", "flashmla", "trtllm_mla"]}
    CLASSES = {("flashinfer", False): ("flashinfer_backend", "FlashInferAttnBackend"),
               ("flashinfer", True): ("flashinfer_mla_backend", "FlashInferMLAAttnBackend"),
               ("fa3", False): ("flashattention_backend", "FlashAttentionBackend"), ("fa3", True): ("flashattention_backend", "FlashAttentionBackend"),
               ("triton", False): ("triton_backend", "TritonAttnBackend"), ("triton", True): ("triton_backend", "TritonAttnBackend"),
               ("torch_native", False): ("torch_native_backend", "TorchNativeAttnBackend"),
               ("flashmla", True): ("flashmla_backend", "FlashMLABackend"), ("trtllm_mla", True): ("trtllm_mla_backend", "TRTLLMMLABackend"),
               ("trtllm_mha", False): ("trtllm_mha_backend", "TRTLLMHAAttnBackend")}
    CONFIGS = {"fp8": ("fp8.py", "Fp8Config", "Fp8KVCacheMethod"),
               "compressed-tensors": ("compressed_tensors/compressed_tensors.py", "CompressedTensorsConfig", "CompressedTensorsKVCacheMethod"),
               "modelopt": ("modelopt_quant.py", "ModelOptQuantConfig", "ModelOptFp8KVCacheMethod")}

    def __init__(self, root):
        self.root, self.package = root, root / "sglang"
        self.kernels = triton_on_cpu.sglang(root)
        self.base = functions(self.package / "srt/layers/quantization/kv_cache.py",
                              ["BaseKVCacheMethod.create_weights", "BaseKVCacheMethod.process_weights_after_loading"],
                              {"torch": torch, "is_fp8_fnuz": lambda: False})

    def has_method(self, declared):
        """Whether the declared quantization makes parameters for scales."""
        if declared is None:
            return False
        file, config, kind = self.CONFIGS[declared["quant_method"]]
        path = self.package / "srt/layers/quantization" / file
        radix = type("RadixAttention", (), {})
        stand_in("sglang.srt.layers.radix_attention", RadixAttention=radix)
        stand_in("sglang.srt.layers.linear", LinearBase=type("LinearBase", (), {}))
        stand_in("sglang.srt.layers.moe.fused_moe_triton", FusedMoE=type("FusedMoE", (), {}))
        stand_in("sglang.srt.layers.moe.fused_moe_triton.layer", FusedMoE=type("FusedMoE", (), {}))
        stand_in("sglang.srt.layers.vocab_parallel_embedding", ParallelLMHead=type("ParallelLMHead", (), {}))
        supported = None
        if file.startswith("compressed"):
            supported = functions(path, [f"{kind}.is_supported_scheme"], {})[f"{kind}.is_supported_scheme"]
        method = type(kind, (), {"is_supported_scheme": staticmethod(supported), "__init__": lambda *_: None})
        names = {kind: method, "logger": Silent(), "LinearBase": type("LinearBase", (), {}), "RadixAttention": radix, "FusedMoE": type("FusedMoE", (), {})}
        name = f"{config}._get_quant_method" if config == "ModelOptQuantConfig" else f"{config}.get_quant_method"
        me = Fields(kv_cache_scheme=declared.get("kv_cache_scheme"), kv_cache_quant_algo=declared.get("kv_cache_quant_algo"))
        arguments = {"Moe": None, "Linear": None} if config == "ModelOptQuantConfig" else {}
        return functions(path, [name], names)[name](me, radix(), "", **arguments) is not None

    def layer(self, declared, latent, scales):
        width = LATENT if latent else WIDTH
        layer = Fields(layer_id=0, tp_q_head_num=HEADS, tp_k_head_num=HEADS, tp_v_head_num=HEADS, head_dim=width, qk_head_dim=width,
                       v_head_dim=RANK if latent else WIDTH, scaling=width**-0.5, logit_cap=0.0, sliding_window_size=-1, xai_temperature_len=-1)
        if not self.has_method(declared):
            return layer
        self.base["BaseKVCacheMethod.create_weights"](None, layer)
        for name, value in zip(("k_scale", "v_scale"), scales or ()):
            getattr(layer, name).data.fill_(value)
        self.base["BaseKVCacheMethod.process_weights_after_loading"](None, layer)
        return layer

    def pool(self, latent, dtype):
        file, names = self.package / "srt/mem_cache/memory_pool.py", {"unwrap_write_loc": lambda loc: (loc, None, None), "maybe_detect_oob": anything,
                                                                   "get_parallel": lambda: Fields(attn_dcp_size=1), "torch": torch, "_is_hip": False}
        stored = torch.uint8 if dtype.itemsize == 1 else dtype
        pool = Fields(dtype=dtype, store_dtype=stored, start_layer=0, size=N, page_size=N, _check_physical_write_loc=anything,
                      kv_lora_rank=RANK, dcp_replicated=True, _write_loc_dcp_span=1)
        names["set_mla_kv_buffer_triton"] = lambda cache, loc, nope, rope: cache.__setitem__(loc, torch.cat([nope, rope], -1).view(stored))
        names["_set_kv_buffer_impl"] = lambda k, v, k_cache, v_cache, loc, **_: (k_cache.__setitem__(loc, k), v_cache.__setitem__(loc, v))
        if latent:
            pool.kv_buffer = [torch.zeros(N, HEADS, LATENT, dtype=stored)]
            bound(pool, in_class(file, "MLATokenToKVPool", ["set_kv_buffer", "set_mla_kv_buffer", "_write_mla_kv_buffer", "_scatter_mla_rows",
                                                            "get_key_buffer", "get_value_buffer"], names))
        else:
            buffers = [torch.zeros(N, HEADS, WIDTH, dtype=stored) for _ in "kv"]
            pool.k_buffer, pool.v_buffer = buffers[:1], buffers[1:]
            bound(pool, in_class(file, "MHATokenToKVPool", ["set_kv_buffer", "_store_kv_layer"], names))
            pool.get_key_buffer, pool.get_value_buffer = lambda _: buffers[0].view(dtype), lambda _: buffers[1].view(dtype)
        pool.get_kv_buffer = lambda i: (pool.get_key_buffer(i), pool.get_value_buffer(i))
        return pool

    def does(self, declared, kind, latent, backend, scales):
        if backend.startswith(("trtllm", "fa")) and "e5m2" in kind:
            return None
        layer = self.layer(declared, latent, scales)
        return self.run(backend, latent, kind, (layer.k_scale_float, layer.v_scale_float))

    @functools.lru_cache(maxsize=None)
    def run(self, backend, latent, kind, held):
        q, k, v = rows(LATENT if latent else WIDTH)
        layer = self.layer({"quant_method": "fp8"} if held[0] else None, latent, held)
        dtype = torch.float8_e5m2 if "e5m2" in kind else E4M3 if "8" in kind else torch.bfloat16
        pool = self.pool(latent, dtype)
        value = k[..., :RANK] if latent else v
        file, name = self.CLASSES[backend, latent]
        path = self.package / f"srt/layers/attention/{file}.py"
        metadata = Fields(kv_indptr=torch.tensor([0, N], dtype=torch.int32), kv_indices=torch.arange(N), num_kv_splits=torch.tensor([1], dtype=torch.int32),
                          block_kv_indices=torch.zeros(1, 1), attn_logits=torch.zeros(1, HEADS, 1, value.shape[-1]), attn_lse=torch.zeros(1, HEADS, 1))
        loc = lambda batch, *_, **__: batch.out_cache_loc  # noqa: E731
        names = {"torch": torch, "KVWriteLoc": type("KVWriteLoc", (), {"for_batch": loc, "for_layer": loc, "__new__": lambda _, at, *__: at}),
                 "logger": Silent(), "get_parallel": Fields, "logit_capping_mod": lambda *_: 0.0, "paged_view": lambda x, _: x, "paged_kv_view": lambda x, *_: x,
                 "paged_row_view": lambda x, _: x, "get_in_autotune_dummy_run": lambda: False, "PAGE_SIZE": N,
                 "AttentionType": types.SimpleNamespace(ENCODER_ONLY="encoder_only"),
                 "scaled_fp8_quant": lambda x, s: (rounded(x.float() / float(s), E4M3).float() * float(s), None)}  # descale_q, too, is 1 then
        batch = Fields(out_cache_loc=torch.arange(N), batch_size=1, seq_lens=torch.tensor([N]), seq_lens_sum=N, forward_mode=Fields(is_decode=lambda: True))
        me = Fields(token_to_kv_pool=pool, forward_metadata=metadata, num_wrappers=1, use_mla=latent, dcp_size=1, dcp_world_size=1, max_kv_splits=1, data_type=dtype,
                    kv_cache_dtype=dtype, kv_cache_dtype_str="auto" if kind == "auto" else kind, fa_impl_ver=3, is_fp8_kvcache=dtype.itemsize == 1,
                    enable_lean_attention=False, kv_cache_quant_method=Fields(needs_global_scale=lambda: False), page_size=N, kv_lora_rank=RANK)
        out = self.of(backend, latent, me, names, path, name, batch, layer, pool, dtype, q, k, value)
        stored = pool.get_key_buffer(0)
        return verdict(q, k, value, stored, out)

    def of(self, backend, latent, me, names, path, name, batch, layer, pool, dtype, q, k, v):
        """The outputs of the backend's own decoding step; the kernels that it calls are stand-ins but Triton's."""
        def kernel(q, k_cache=None, v_cache=None, k_descale=None, v_descale=None, descale_k=None, qv=None, **_):
            if latent and qv is not None:
                q, k_cache = torch.cat([qv.float(), q.float()], -1), torch.cat([v_cache, k_cache], -1)
            if latent:
                v_cache = k_cache[..., :RANK]
            is_fp8 = k_cache.dtype == E4M3
            factors = (descale_k, descale_k) if descale_k is not None else (k_descale, v_descale) if is_fp8 else (1.0, 1.0)
            return attention(q.reshape(1, -1), k_cache.reshape(N, -1), v_cache.reshape(N, -1), *factors), None

        names["flash_attn_with_kvcache"] = lambda **given: kernel(**given)[0]
        names["flash_mla_with_kvcache"] = lambda q, k_cache, descale_k=None, **_: kernel(q, k_cache, descale_k=descale_k)
        args = (q.reshape(1, -1), k.clone(), v.clone(), layer, batch)
        if backend == "trtllm_mla":
            names["mla_quantize_without_rope_for_fp8"] = lambda q, q_rope, k, k_rope: tuple(rounded(x.float(), E4M3).unsqueeze(1) if x.dim() == 2 else
                                                                                           rounded(x.float(), E4M3) for x in (q, k, k_rope))
            own = in_class(path, name, ["_compute_decode_bmm1_scale"], names)
            pool.set_mla_kv_buffer(layer, torch.arange(N), *(rounded(x.float(), dtype).to(dtype) for x in (k[..., :RANK], k[..., RANK:])))
            factor = own["_compute_decode_bmm1_scale"](me, layer) / layer.scaling
            return attention(q, pool.get_key_buffer(0), pool.get_value_buffer(0), factor, 1.0)
        if backend == "trtllm_mha":
            own = in_class(path, name, ["_get_bmm_scales"], names | in_static(path, name, "_get_scalar_scale", names))
            me._get_scalar_scale = in_static(path, name, "_get_scalar_scale", names)["_get_scalar_scale"]
            writes = in_class(path.with_name("flashinfer_backend.py"), "FlashInferAttnBackend", ["_kv_write_scales"], names)["_kv_write_scales"](me, layer)
            pool.set_kv_buffer(layer, torch.arange(N), k.clone(), v.clone(), *writes)
            first, second = own["_get_bmm_scales"](me, layer, 1.0)
            return attention(q, *pool.get_kv_buffer(0), first / layer.scaling, second)
        wanted = {"flashinfer": ["forward_decode"] + ([] if latent else ["_kv_write_scales", "_get_wrapper_idx"]),
                  "triton": ["forward_decode"] + ["_set_kv_buffer"], "torch_native": ["forward_decode"], "flashmla": ["forward_decode"],
                  "fa3": ["forward_decode", "prepare_paged_mha_query", "_mxfp8_sf_kwargs", "get_paged_mha_kv_cache"]}[backend]
        bound(me, in_class(path, name, wanted, names))
        if backend == "flashinfer":
            paged = lambda q, kv, k_scale=None, v_scale=None, **_: attention(q, *kv, k_scale, v_scale)  # noqa: E731
            latents = lambda q, q_rope, k, k_rope, out, **_: attention(torch.cat([q, q_rope], -1), torch.cat([k, k_rope], -1), k)  # noqa: E731
            me.forward_metadata.decode_wrapper, me.forward_metadata.decode_wrappers = Fields(run=latents), [Fields(forward=paged)]
        if backend == "torch_native":
            me.req_to_token_pool = Fields()
            me._run_sdpa_forward_decode = lambda q, o, k, v, *_, **__: o.copy_(attention(q, k, v).view(o.shape))
        if backend == "triton":
            stand_in("sglang.srt.model_executor.runner_utils.capture_mode", get_is_capture_mode=lambda: False)
            me.decode_attention_fwd = functools.partial(self.kernels.decode.decode_attention_fwd)
        if backend == "fa3" and latent:
            q_rope, k_rope = args[0][:, RANK:], args[1][..., RANK:]
            return me.forward_decode(args[0][:, :RANK], args[1][..., :RANK], v, layer, batch, q_rope=q_rope, k_rope=k_rope)
        return me.forward_decode(*args)

    def kind(self, flag, declared):
        return str(type_of_sglang(self.root, flag, declared))


def in_static(path, name, method, names):
    return {method: functions(path, [f"{name}.{method}"], names)[f"{name}.{method}"]}
