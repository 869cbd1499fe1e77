"""What the checkers cannot run with one process: the vLLM plug-in on several ranks, on FNUZ devices, for drafts, at reloads.

Runs under the server's Python, with the server's own base class and PyTorch; the model is a stand-in.
"""

import json
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import kv_cache_scales.vllm as plugin
import torch
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

PER_HEAD = {"key": [1.0, 2.0, 3.0, 4.0], "value": [5.0, 6.0, 7.0, 8.0], "query": [1.0, 9.0, 2.0, 3.0, 4.0, 4.0, 8.0, 5.0]}


class Attention(torch.nn.Module, AttentionLayerBase):
    """Has what the plug-in looks at; after loading its scales are 1.0, as set_default_quant_scales leaves them."""

    def __init__(self, n_heads, n_kv_heads, n_scales=1, dtype="fp8"):
        super().__init__()
        self.backend = "FLASH_ATTN"
        self.num_heads, self.num_kv_heads, self.head_size, self.kv_cache_dtype = n_heads, n_kv_heads, 64, dtype
        for site in "kvq":
            self.register_buffer(f"_{site}_scale", torch.ones(n_scales) if n_scales > 1 else torch.tensor(1.0))
            setattr(self, f"_{site}_scale_float", 1.0)
        self._k_scale_cpu, self._v_scale_cpu = torch.tensor(1.0), torch.tensor(1.0)

    def process_weights_after_loading(self, _dtype):
        for site in "kvq":
            getattr(self, f"_{site}_scale").fill_(1.0)
            setattr(self, f"_{site}_scale_float", 1.0)

    def get_attn_backend(self):
        return types.SimpleNamespace(get_name=lambda: self.backend)

    def get_kv_cache_spec(self, _config):
        return None


def model_of(layers):
    """{index: Attention}; other layers live on other ranks."""
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleDict()
    for index, layer in layers.items():
        block = torch.nn.Module()
        block.attn = layer
        model.layers[str(index)] = block
    return model


class Ranks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        mock.patch.object(plugin, "check_weights", return_value="match").start()
        self.addCleanup(mock.patch.stopall)

    def scales(self, per_head=False, mla=False):
        def site(name, scale):
            return {"scale": scale, **({"scale_per_head": PER_HEAD[name]} if per_head else {})}

        shape = {"kind": "gqa", "n_heads": 8, "n_kv_heads": 4, "head_dim_k": 64, "head_dim_v": 64}
        sites = {"key": site("key", 4.0), "value": site("value", 8.0), "query": site("query", 9.0)}
        if mla:
            shape = {"kind": "mla", "n_heads": 8, "n_kv_heads": 1, "head_dim_k": 576, "head_dim_v": 512}
            sites = {"latent": {"scale": 16.0}, "query": sites["query"]}
        root = {
            "format": "kv-cache-scales", "version": "1.0",
            "model": {"architecture": "A", "tensor_prefix": "", "n_layers": 4, "weights_fingerprint": ""},
            "quantization": {"dtype": "fp8_e4m3", "granularity": "head" if per_head else "tensor"},
            "layers": [{"index": i, **shape, **sites} for i in range(4)], "layers_without_kv": [],
        }
        path = os.path.join(self.folder, "scales.json")
        with open(path, "w") as file:
            json.dump(root, file)
        return path

    def install(self, layers, tp=(0, 1), pp=(0, 4), fnuz=False, skip=(), per_head=False, mla=False):
        """tp: (rank, size); pp: (first layer, end)."""
        space = types.SimpleNamespace
        config = space(
            model="m", revision=None, hf_config=space(architectures=["A"]),
            get_layers_start_end_indices=lambda _: pp, get_total_num_hidden_layers=lambda: 4,
        )
        vllm_config = space(
            additional_config={"kv_cache_scales": self.scales(per_head, mla)}, parallel_config=None,
            cache_config=space(kv_cache_dtype_skip_layers=list(skip)), load_config=space(download_dir=None),
        )
        with mock.patch.object(plugin, "_tensor_parallel", return_value=tp), mock.patch(
            "vllm.platforms.current_platform.is_fp8_fnuz", return_value=fnuz, create=True
        ):
            plugin._install(model_of(layers), vllm_config, config)

    def test_tensor_parallel(self):
        for rank in range(2):
            layers = {i: Attention(4, 2) for i in range(4)}
            self.install(layers, tp=(rank, 2))
            self.assertEqual([float(getattr(layers[3], f"_{s}_scale")) for s in "kvq"], [4.0, 8.0, 9.0])
        with self.assertRaisesRegex(plugin.ScaleError, "this rank has 8 query and 4 KV heads"):
            self.install({i: Attention(8, 4) for i in range(4)}, tp=(0, 2))

    def test_heads_are_cut_by_rank(self):
        for rank, k, q in ((0, [1.0, 2.0], [9.0, 3.0]), (1, [3.0, 4.0], [4.0, 8.0])):
            layers = {i: Attention(4, 2, n_scales=2) for i in range(4)}
            self.install(layers, tp=(rank, 2), per_head=True)
            self.assertEqual(layers[1]._k_scale.tolist(), k)
            self.assertEqual(layers[1]._q_scale.tolist(), q)
            self.assertEqual(layers[1]._k_scale_float, max(k))
            self.assertEqual(float(layers[1]._k_scale_cpu), max(k))

    def test_shared_heads(self):
        for rank in range(8):
            layers = {i: Attention(1, 1) for i in range(4)}
            self.install(layers, tp=(rank, 8), per_head=True)
            self.assertEqual(float(layers[0]._v_scale), PER_HEAD["value"][rank // 2])

    def test_heads_where_the_layer_has_one_scale(self):
        layers = {i: Attention(8, 4) for i in range(4)}
        self.install(layers, per_head=True)
        self.assertEqual(float(layers[0]._k_scale), 4.0)

    def test_pipeline(self):
        self.install({i: Attention(8, 4) for i in (2, 3)}, pp=(2, 4))
        with self.assertRaisesRegex(plugin.ScaleError, r"scales for layers \[3\]"):
            self.install({2: Attention(8, 4)}, pp=(2, 4))
        with self.assertRaisesRegex(plugin.ScaleError, r"scales for layers \[0, 1\]"):
            self.install({i: Attention(8, 4) for i in (2, 3)})

    def test_fnuz(self):
        layers = {i: Attention(8, 4) for i in range(4)}
        self.install(layers, fnuz=True)
        self.assertEqual((float(layers[0]._k_scale), layers[0]._k_scale_float), (8.0, 8.0))

    def test_reload_in_place(self):
        layers = {i: Attention(8, 4) for i in range(4)}
        self.install(layers)
        pointer = layers[0]._k_scale.data_ptr()
        layers[0].process_weights_after_loading(torch.bfloat16)
        self.assertEqual((float(layers[0]._k_scale), layers[0]._k_scale_float), (4.0, 4.0))
        self.assertEqual(layers[0]._k_scale.data_ptr(), pointer)

    def test_skipped_layers(self):
        layers = {i: Attention(8, 4, dtype="auto" if i == 2 else "fp8") for i in range(4)}
        self.install(layers, skip=["2"])
        self.assertEqual([float(layers[i]._k_scale) for i in range(4)], [4.0, 4.0, 1.0, 4.0])
        with self.assertRaisesRegex(plugin.ScaleError, "its cache is auto"):
            self.install({i: Attention(8, 4, dtype="auto" if i == 2 else "fp8") for i in range(4)})
        with self.assertRaisesRegex(plugin.ScaleError, "no layer of this rank has an FP8 cache"):
            self.install({i: Attention(8, 4, dtype="auto") for i in range(4)}, skip=["2"])

    def test_shared_cache_and_encoder(self):
        layers = {i: Attention(8, 4) for i in range(5)}
        layers[4].kv_sharing_target_layer_name = "layers.1.attn"
        layers[5] = Attention(8, 4)
        layers[5].attn_type = "encoder_only"
        self.install(layers)
        self.assertEqual([float(layers[i]._k_scale) for i in (4, 5)], [4.0, 1.0])

    def test_mla_backends(self):
        def install(backend, dtype="fp8"):
            layers = {i: Attention(8, 1, dtype=dtype) for i in range(4)}
            for layer in layers.values():
                layer.backend, layer.kv_lora_rank, layer.qk_rope_head_dim = backend, 512, 64
            self.install(layers, mla=True)
            return layers

        self.assertEqual([float(getattr(install("FLASHMLA")[2], f"_{s}_scale")) for s in "kvq"], [16.0, 16.0, 9.0])
        for backend in ("CUTLASS_MLA", "FLASHINFER_MLA_SPARSE_SM90", "SOMETHING_NEW"):
            with self.assertRaisesRegex(plugin.ScaleError, f"MLA backend {backend} is not known to apply scales"):
                install(backend)
        for dtype in ("fp8_ds_mla", "nvfp4_ds_mla"):
            with self.assertRaisesRegex(plugin.ScaleError, f"a cache of {dtype} computes its own scales"):
                install("FLASHMLA_SPARSE", dtype)

    def test_drafts(self):
        target, draft = object(), object()
        config = types.SimpleNamespace(model_config=target, speculative_config=types.SimpleNamespace(draft_model_config=draft))
        self.assertFalse(plugin._is_draft(config, target))
        self.assertTrue(plugin._is_draft(config, draft))
        config.model_config = draft  # as speculators replace it
        self.assertTrue(plugin._is_draft(config, draft))

    def test_options(self):
        def options(given):
            return plugin._options(types.SimpleNamespace(additional_config=given))

        self.assertEqual(options({"kv_cache_scales": "/x"}), ("/x", False))
        self.assertEqual(options({"kv_cache_scales": {"path": "/x", "allow_other_weights": True}}), ("/x", True))
        for bad in (None, {}, {"kv_cache_scales": 1}, {"kv_cache_scales": {"allow_other_weights": True}}):
            with self.assertRaisesRegex(plugin.ScaleError, "needs --additional-config"):
                options(bad)
        with self.assertRaisesRegex(plugin.ScaleError, r"unknown \['allow'\]"):
            options({"kv_cache_scales": {"path": "/x", "allow": True}})


if __name__ == "__main__":
    sys.exit(unittest.main())
