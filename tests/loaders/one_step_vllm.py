"""Whether vLLM applies the scales that a checkpoint has: its own functions on one layer, for check_scale_use.py."""

import functools
import re
import sys
import types

import torch
import triton_on_cpu  # first: it sets what Triton reads when it is imported
from check_cache_types import Silent, vllm as type_of_vllm
from one_step import HEADS, LATENT, N, RANK, WIDTH, Fields, anything, attention, bound, in_class, rows, verdict
from own_functions import functions
from triton_on_cpu import E4M3, load, rounded, stand_in


class Vllm:
    LINE = "vllm serve m"
    FLAGS = ["", "auto", "fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16", "float16", "fp8_per_token_head", "int8_per_token_head"]
    BACKENDS = {False: ["FLASHINFER", "FLASH_ATTN", "TRITON_ATTN"], True: ["FLASHINFER_MLA", "FLASHMLA", "CUTLASS_MLA", "TRITON_MLA"]}
    FILES = {"FLASHINFER": "flashinfer", "FLASH_ATTN": "flash_attn", "TRITON_ATTN": "triton_attn", "FLASHINFER_MLA": "mla/flashinfer_mla",
             "FLASHMLA": "mla/flashmla", "CUTLASS_MLA": "mla/cutlass_mla", "TRITON_MLA": "mla/triton_mla"}
    CONFIGS = {"fp8": ("fp8.py", "Fp8Config", "Fp8KVCacheMethod"),
               "compressed-tensors": ("compressed_tensors/compressed_tensors.py", "CompressedTensorsConfig", "CompressedTensorsKVCacheMethod"),
               "modelopt": ("modelopt.py", "ModelOptQuantConfigBase", "ModelOptKVCacheMethod")}

    def __init__(self, root):
        self.root, self.package = root, root / "vllm"
        self.kernels = triton_on_cpu.vllm(root)
        stand_in("vllm.config.cache", get_kv_cache_dtype_handler=anything)
        interface = functions(self.package / "v1/kv_cache_interface.py",
                              ["get_kv_quant_mode", "is_quantized_kv_cache", "kv_cache_uses_per_token_head_scales"],
                              {"KVQuantMode": self.kernels.modes})
        self.is_quantized = interface["is_quantized_kv_cache"]
        stand_in("vllm.v1.kv_cache_interface", **interface)
        stand_in("vllm.logger", init_logger=lambda _: Silent())
        stand_in("vllm.model_executor.utils", is_weights_pre_processed=lambda: False)
        stand_in("vllm.platforms", current_platform=Fields(is_fp8_fnuz=lambda: False))
        stand_in("vllm.model_executor.layers.quantization.base_config", QuantizationConfig=object, QuantizeMethodBase=object)
        self.base = load(root, "vllm.model_executor.layers.quantization.kv_cache")

    def supports(self, backend, kind):
        text = (self.package / "v1/attention/backends" / (self.FILES[backend] + ".py")).read_text()
        return f'"{kind}"' in re.search(r"supported_kv_cache_dtypes[^=]*= \[(.*?)\]", text, re.S)[1]

    def method(self, declared, latent):
        """The one that the declared quantization has for this attention class; none makes no parameters."""
        if declared is None:
            return None
        file, config, kind = self.CONFIGS[declared["quant_method"]]
        path = self.package / "model_executor/layers/quantization" / file
        attention, mla = type("Attention", (), {}), type("MLAAttention", (), {})
        names = {name: type(name, (), {}) for name in ("LinearBase", "ParallelLMHead", "VocabParallelEmbedding", "RoutedExperts")}
        names |= {"Attention": attention, "MLAAttention": mla, kind: lambda _: kind}
        chosen = functions(path, [f"{config}.get_quant_method"], names)[f"{config}.get_quant_method"](
            Fields(KVCacheMethodCls=lambda _: kind, quant_config=None), (mla if latent else attention)(), "")
        if chosen is None:
            return None
        if kind != "CompressedTensorsKVCacheMethod":  # those of the others add nothing to their base
            return self.base.BaseKVCacheMethod(None)
        scheme = types.SimpleNamespace(ATTN_HEAD="attn_head")
        strategy = type("QuantizationStrategy", (), {"__new__": lambda _, text: text, "ATTN_HEAD": scheme.ATTN_HEAD})
        own = in_class(path, kind, ["create_weights", "process_weights_after_loading"],
                       {"torch": torch, "QuantizationStrategy": strategy, "partial": functools.partial,
                        "get_tensor_model_parallel_rank": lambda: 0, "get_tensor_model_parallel_world_size": lambda: 1})
        quant = Fields(kv_cache_scheme=declared["kv_cache_scheme"], total_num_heads=HEADS, total_num_kv_heads=HEADS)
        return bound(Fields(quant_config=quant), own)

    def layer(self, declared, latent, kind, scales):
        layer = torch.nn.Module()
        layer.kv_cache_dtype, layer.num_kv_heads = kind, HEADS
        own = functions(self.package / "model_executor/layers/attention/attention.py", ["set_default_quant_scales"], {"torch": torch})
        own["set_default_quant_scales"](layer, register_buffer=True)
        method = self.method(declared, latent)
        if method is None:
            return layer
        method.create_weights(layer)
        for name, value in zip(("k_scale", "v_scale"), scales or ()):
            parameter = getattr(layer, name)
            getattr(parameter, "weight_loader", lambda p, x: p.data.copy_(x))(parameter, torch.tensor([value] * parameter.numel()))
        method.process_weights_after_loading(layer)
        return layer

    def store(self, key, value, k_cache, v_cache, slots, kind, k_scale, v_scale):
        """reshape_and_cache_flash"""
        for x, cache, scale in ((key, k_cache, k_scale), (value, v_cache, v_scale)):
            cache[0, slots] = rounded(x.float() / float(scale.flatten()[0]), cache.dtype) if kind.startswith("fp8") else x.to(cache.dtype)

    @functools.lru_cache(maxsize=None)
    def run(self, backend, latent, kind, held):
        """With a layer that holds these scales: k, v, their floats."""
        q, k, v = rows(LATENT if latent else WIDTH)
        layer = Fields(_k_scale=torch.tensor(held[0]), _v_scale=torch.tensor(held[1]), _q_scale=torch.tensor(1.0), _q_scale_float=1.0,
                       _k_scale_float=held[2], _v_scale_float=held[3])
        path = self.package / "v1/attention/backends" / (self.FILES[backend] + ".py")
        dtype = (torch.float8_e5m2 if "e5m2" in kind and backend == "FLASHINFER" else E4M3) if self.is_quantized(kind) else torch.bfloat16
        if latent:
            return self.run_latent(backend, path, layer, kind, dtype, q, k)
        cache = torch.zeros(1, HEADS, N, 2 * WIDTH, dtype=dtype)
        views = types.SimpleNamespace(fp8_dtype=lambda: dtype)
        strided = {"canonicalize_singleton_dim_strides": lambda x: x, "is_quantized_kv_cache": self.is_quantized, "torch": torch}
        me = Fields(kv_cache_dtype=kind, cache_dtype=kind, head_size=WIDTH, num_kv_heads=HEADS, scale=WIDTH**-0.5, dcp_world_size=1,
                    attn_type="decoder", fp8_dtype=dtype, logits_soft_cap=0, sliding_window=(-1, -1), window_left=-1, chunk_lookback=-1,
                    is_kvcache_nvfp4=False, vllm_flash_attn_version=3)
        meta = Fields(num_actual_tokens=1, query_start_loc=torch.tensor([0, 1], dtype=torch.int32), seq_lens=torch.tensor([N], dtype=torch.int32),
                      max_query_len=1, max_seq_len=N, block_table=torch.zeros(1, 1, dtype=torch.int32), causal=True)
        outs, out = [], torch.zeros(1, HEADS, WIDTH)
        kinds = types.SimpleNamespace(ENCODER_ONLY="encoder_only", ENCODER="encoder", DECODER="decoder")
        names = strided | {"current_platform": views, "AttentionType": kinds, "logger": Silent()}
        slots = torch.arange(N)
        if backend == "TRITON_ATTN":
            modes = self.kernels.modes
            names |= {"KVQuantMode": modes, "triton_reshape_and_cache_flash": self.kernels.write.triton_reshape_and_cache_flash,
                      "triton_reshape_and_cache_flash_per_token_head_quant":
                          self.kernels.write.triton_reshape_and_cache_flash_per_token_head_quant,
                      "unified_attention": self.kernels.unified.unified_attention}
            bound(me, in_class(path, "TritonAttentionImpl", ["forward", "do_kv_cache_update"], names))
            me._kv_quant_mode = sys.modules["vllm.v1.kv_cache_interface"].get_kv_quant_mode(kind)
            me._is_per_token_head_quant, me.use_alibi_sqrt = kind.endswith("per_token_head"), False
            if me._is_per_token_head_quant:
                narrow = [torch.zeros(1, N, HEADS, WIDTH, dtype=torch.int8 if "int8" in kind else E4M3) for _ in "kv"]
                me._pth_key_value_caches, (me._k_scale_cache, me._v_scale_cache) = lambda _: narrow, [torch.ones(1, N, HEADS) for _ in "kv"]
            me.do_kv_cache_update(layer, k, v, cache, slots)
            me.forward(layer, q, k, v, cache, meta, out)
            if me._is_per_token_head_quant:  # by scales that are made of each row: those of the layer are in none of it
                return "garbage" if verdict(q, k, v, k, out) == "garbage" else "unused"
            outs.append(out)
        elif backend == "FLASH_ATTN":
            def kernel(q, k, v, out, k_descale, v_descale, **_):
                is_fp8 = k.dtype.itemsize == 1
                out.copy_(attention(q, k[0, :, 0], v[0, :, 0], k_descale if is_fp8 else 1.0, v_descale if is_fp8 else 1.0).view(out.shape))

            names |= {"reshape_and_cache_flash": self.store, "_FA4_DENSE_ATTENTION_KERNEL": kernel, "_maybe_symmetrize_window": lambda w, _: w}
            own = in_class(path, "FlashAttentionImpl", ["forward", "do_kv_cache_update"], names)
            bound(me, own)
            me.do_kv_cache_update(layer, k, v, cache, slots)
            me.forward(layer, q, k, v, cache, meta, out)
            outs.append(out)
        else:
            outs = self.run_flashinfer(path, me, names, layer, meta, cache, slots, q, k, v)
        seen = {verdict(q, k, v, cache[0, 0, :, :WIDTH], o) for o in outs}
        return "garbage" if "garbage" in seen else seen.pop()

    def run_flashinfer(self, path, me, names, layer, meta, cache, slots, q, k, v):
        """Decode and prefill."""
        outs = []

        def wrapper(**fixed):
            def run(q, kv, q_scale, k_scale, v_scale, out, **_):
                assert q_scale == 1.0
                out.copy_(attention(q, *(x.reshape(N, -1) for x in kv), k_scale, v_scale).view(out.shape))
            return Fields(run=run, _window_left=-1, _logits_soft_cap=0.0, _sm_scale=me.scale, **fixed)

        kinds = {name: type(name, (Fields,), {}) for name in
                 ("FIPrefill", "FIDecode", "TRTLLMPrefill", "FlashInferTrtllmAPIDecode", "BatchPrefillWithPagedKVCacheWrapper",
                  "BatchAttentionWithAttentionSinkWrapper", "BatchDCPPrefillWrapper")}
        names |= kinds | {"FlashInferDecodeKernel": types.SimpleNamespace(XQA="xqa", TRTLLM_GEN="gen"), "FP4_DTYPE": None, "FP8_DTYPE": None}
        write = types.SimpleNamespace(_C_cache_ops=types.SimpleNamespace(reshape_and_cache_flash=self.store))
        names["torch"] = types.SimpleNamespace(**{n: getattr(torch, n) for n in ("float8_e4m3fn", "float8_e5m2", "uint8", "empty_like", "empty")},
                                               ops=write)
        bound(me, in_class(path, "FlashInferImpl", ["forward", "do_kv_cache_update", "maybe_quant_query"], names))
        me.do_kv_cache_update(layer, k, v, cache, slots)
        meta.kv_cache_layout = types.SimpleNamespace(layer_view_order=(0, 1, 2, 3))
        meta.q_data_type_prefill = meta.q_data_type_decode = q.dtype
        for prefill in (False, True):
            meta.num_decode_tokens, meta.num_prefill_tokens = (0, 1) if prefill else (1, 0)
            native = wrapper()
            meta.decode = kinds["FIDecode"](wrapper=native)
            paged = kinds["BatchPrefillWithPagedKVCacheWrapper"](**native.__dict__, _causal=True)
            meta.prefill = kinds["FIPrefill"](wrapper=paged)
            out = torch.zeros(1, HEADS, WIDTH)
            me.forward(layer, q, k, v, cache, meta, out)
            outs.append(out)
        factors = me.bmm1_scale / me.scale, me.bmm2_scale  # of TensorRT-LLM's kernels
        assert self.is_quantized(me.kv_cache_dtype) or factors == (1, 1)
        return outs + [attention(q, *cache[0, 0].split(WIDTH, -1), *factors)] * self.is_quantized(me.kv_cache_dtype)

    def run_latent(self, backend, path, layer, kind, dtype, q, k):
        impl = {"FLASHINFER_MLA": "FlashInferMLAImpl", "FLASHMLA": "FlashMLAImpl", "CUTLASS_MLA": "CutlassMLAImpl", "TRITON_MLA": "TritonMLAImpl"}
        cache = torch.zeros(1, N, LATENT, dtype=dtype)
        cache[0] = (rounded(k[:, 0].float() / float(layer._k_scale), dtype) if self.is_quantized(kind) else k[:, 0]).to(dtype)

        def kernel(query=None, q=None, kv_cache=None, k_cache=None, bmm1_scale=None, bmm2_scale=1.0, descale_k=None, **_):
            rows_of = (kv_cache if kv_cache is not None else k_cache).reshape(N, LATENT)
            factors = (descale_k, descale_k) if bmm1_scale is None else (bmm1_scale / LATENT**-0.5, bmm2_scale)
            got = attention(query if q is None else q, rows_of, rows_of[:, :RANK], *factors).view(1, 1, 1, RANK)
            return got if query is not None else (got, None)

        names = {"torch": torch, "logger": Silent(), "envs": Fields(), "is_quantized_kv_cache": self.is_quantized, "_get_workspace_buffer": anything,
                 "_select_mla_decode_backend": lambda _: "x", "trtllm_batch_decode_with_kv_cache_mla": kernel, "flash_mla_with_kvcache": kernel,
                 "flash_mla_with_kvcache_fp8": kernel, "reshape_query_for_spec_decode": lambda q, _: q, "_compute_num_kv_splits": lambda *_: 1,
                 "reshape_attn_output_for_spec_decode": lambda o: o, "is_workspace_manager_initialized": lambda: False,
                 "decode_attention_fwd": self.kernels.decode.decode_attention_fwd}
        me = Fields(kv_cache_dtype=kind, scale=LATENT**-0.5, kv_lora_rank=RANK, qk_rope_head_dim=LATENT - RANK, dcp_world_size=1,
                    _workspace=Fields(ensure_size=anything, get_buf=anything))
        me._sm100_cutlass_mla_decode = lambda *a: kernel(q=torch.cat(a[:2], -1), k_cache=a[2])
        decode = Fields(block_table=torch.zeros(1, 1, dtype=torch.int32), seq_lens=torch.tensor([N], dtype=torch.int32), max_query_len=1,
                        scheduler_metadata=Fields())
        meta = Fields(decode=decode, num_decodes=1, num_decode_tokens=1, causal=True, max_seq_len=N)
        bound(me, in_class(path, impl[backend], ["forward_mqa"], names))
        try:
            out = me.forward_mqa(q.repeat(1, 2, 1), cache, meta, layer)[0]
        except NotImplementedError:
            return "stops"
        return verdict(q, k, k[..., :RANK], cache[0], out)

    def does(self, declared, kind, latent, backend, scales):
        if not self.supports(backend, kind) or kind.startswith("nvfp4"):
            return None
        layer = self.layer(declared, latent, kind, scales)
        return self.run(backend, latent, kind, (float(layer._k_scale.flatten()[0]), float(layer._v_scale.flatten()[0]),
                                                layer._k_scale_float, layer._v_scale_float))

    def kind(self, flag, declared):
        return type_of_vllm(self.root, flag, declared)
