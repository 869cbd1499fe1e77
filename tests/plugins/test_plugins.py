"""Tests of what the server plug-ins decide without a server. Needs Python and, for the fingerprints, the program:

    make test-plugins
"""

import dataclasses
import glob
import importlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(SOURCE, "tests", "arch", "golden")
KVCAL = os.environ.get("KVCAL", os.path.join(SOURCE, "build", "release", "kvcal"))
sys.path.insert(0, os.path.join(SOURCE, "apps", "plugins"))
PLUGINS = {server: importlib.import_module("kv_cache_scales." + server) for server in ("vllm", "sglang")}
plugin = importlib.import_module("kv_cache_scales.scale_file")
log = PLUGINS["vllm"].log


def site(scale, **more):
    return {"scale": scale, **more}


def scale_file(**changes):
    """Two layers with 4 query and 2 KV heads, layer 1 without a cache, layer 3 reads that of layer 2."""
    layer = {"kind": "gqa", "n_heads": 4, "n_kv_heads": 2, "head_dim_k": 64, "head_dim_v": 32}
    sites = {"key": site(0.5), "value": site(0.25), "query": site(2.0)}
    root = {
        "format": "kv-cache-scales",
        "version": "1.0",
        "model": {
            "architecture": "LlamaForCausalLM", "tensor_prefix": "model.", "n_layers": 4,
            "weights_fingerprint": "a" * 64, "also_valid_for": ["b" * 64],
        },
        "quantization": {"dtype": "fp8_e4m3", "granularity": "tensor"},
        "layers": [{"index": 0, **layer, **sites}, {"index": 2, **layer, **sites}],
        "layers_without_kv": [{"index": 1, "kind": "mamba"}, {"index": 3, "kind": "attention", "shares_kv_with": 2}],
    }
    root.update(changes)
    return root


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, root, name="scales.json"):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(root if isinstance(root, str) else json.dumps(root))
        return path

    def read(self, root):
        return plugin.read_scale_file(self.write(root))

    def refuses(self, pattern, call, *args):
        with self.assertRaisesRegex(plugin.ScaleError, pattern) as caught:
            call(*args)
        self.assertTrue(str(caught.exception).startswith("kv-cache-scales: "))
        self.assertNotIn("\n", str(caught.exception))


class LogLine(unittest.TestCase):
    def test_is_that_of_the_documents(self):
        said = plugin.LOG_LINE % (24, "/x.json", "0123456789ab", "tensor", "match")
        with open(os.path.join(SOURCE, "apps", "plugins", "README.md")) as file:
            self.assertIn(said, file.read())


class Recorder(unittest.TestCase):
    def test_asks_only_what_the_plugin_has(self):
        with open(os.path.join(SOURCE, "apps", "python", "kvcal", "vllm_recorder.py")) as file:
            names = set(re.findall(r"\bplugin\.(\w+)", file.read()))
        self.assertGreater(len(names), 5)
        self.assertEqual([name for name in sorted(names) if not hasattr(PLUGINS["vllm"], name)], [])


class ScaleFile(WithFolder):
    def test_tensor(self):
        file = self.read(scale_file())
        self.assertEqual(sorted(file.layers), [0, 2])
        self.assertEqual(file.layers[2].scale, {"k": 0.5, "v": 0.25, "q": 2.0})
        self.assertEqual(file.layers[2].per_head, {})
        self.assertEqual(file.owners, {3: 2})

    def test_what_depends_on_the_file(self):
        file = self.read(scale_file())
        self.assertEqual(plugin.departing(file, {0, 2}), [0, 2])
        ones = self.read(scale_file(layers=[dict(l, key=site(1.0), value=site(1.0)) for l in scale_file()["layers"]]))
        self.assertEqual(plugin.departing(ones, {0, 2}), [])

    def test_latent_row_is_key_and_value(self):
        layer = {"index": 0, "kind": "mla", "n_heads": 4, "n_kv_heads": 1, "head_dim_k": 576, "head_dim_v": 512}
        file = self.read(scale_file(layers=[{**layer, "latent": site(0.125), "query": site(3.0)}]))
        self.assertEqual(file.layers[0].scale, {"k": 0.125, "v": 0.125, "q": 3.0})

    def test_mtp_layers(self):
        file = self.read(scale_file(mtp_layers=[dict(scale_file()["layers"][0], index=4)]))
        self.assertEqual(([layer.index for layer in file.mtp_layers], sorted(file.layers)), ([4], [0, 2]))
        ((layer, name, module),) = plugin.mtp_pairs(file, [("model.layers.0.attn", "module")], log)
        self.assertEqual((layer.scale["k"], name, module), (0.5, "model.layers.0.attn", "module"))
        for other, caches in ((scale_file(), [("a", 1)]), (scale_file(mtp_layers=scale_file()["layers"]), [("a", 1)])):
            with self.assertLogs(log, "WARNING") as logged:
                self.assertEqual(plugin.mtp_pairs(self.read(other), caches, log), [])
            self.assertIn("has no scales of 1 MTP layers", logged.output[0])

    def test_heads(self):
        root = scale_file()
        root["layers"][0]["key"]["scale_per_head"] = [0.5, 0.125]
        self.assertEqual(self.read(root).layers[0].per_head, {"k": [0.5, 0.125]})
        root["layers"][0]["key"]["scale_per_head"] = [0.5]
        self.refuses("layer 0 key: 1 scales per head, expected 2", self.read, root)

    def test_scales_that_are_none(self):
        for bad in ("0", "-0.5", "1e-39", "1e39", "NaN", "Infinity", "true", "null", '"0.5"', "[0.5]"):
            text = json.dumps(scale_file()).replace('"value": {"scale": 0.25}', '"value": {"scale": %s}' % bad, 1)
            self.refuses("layer 0 value: scale .*, expected a positive float32", self.read, text)

    def test_broken_files(self):
        self.refuses("cannot be read: No such file", plugin.read_scale_file, os.path.join(self.folder, "none"))
        for text in ("", "{", "[]", "null", "[" * 100000, '{"format": 1}', "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")):
            self.refuses("no valid kv-cache-scales.json", self.read, text)
        self.refuses("version '2.0', expected", self.read, scale_file(version="2.0"))
        self.refuses("format 'kvstats'", self.read, scale_file(format="kvstats"))
        self.refuses("KeyError: 'quantization'", self.read, {k: v for k, v in scale_file().items() if k != "quantization"})
        self.refuses("unknown kind", self.read, scale_file(layers=[{**scale_file()["layers"][0], "kind": "mha"}]))
        self.refuses("twice", self.read, scale_file(layers=scale_file()["layers"][:1] * 2))
        self.refuses("no whole numbers", self.read, scale_file(layers=[{**scale_file()["layers"][0], "n_heads": True}]))

    def test_a_pack(self):
        pack = os.path.join(self.folder, "pack")
        os.mkdir(pack)
        self.refuses("is a folder and no pack", plugin.read_scale_file, pack)
        scales = self.write(scale_file(), "pack/kv-cache-scales.json")
        alone = plugin.read_scale_file(scales)
        self.write("{}", "pack/kvcal-pack.json")
        self.refuses("cannot be read", plugin.read_scale_file, pack)
        self.write(f"{'0' * 64}  kvcal-pack.json\n", "pack/SHA256SUMS")
        self.refuses("does not name kv-cache-scales.json", plugin.read_scale_file, pack)
        self.write(f"{'0' * 64}  kvcal-pack.json\n{alone.sha256}  kv-cache-scales.json\n", "pack/SHA256SUMS")
        self.assertEqual(plugin.read_scale_file(pack), alone)
        self.write(scale_file(version="1.9"), "pack/kv-cache-scales.json")
        self.refuses("is not the file that was packed", plugin.read_scale_file, pack)

    def test_too_large(self):
        path = self.write("")
        os.truncate(path, plugin.MAX_FILE_BYTES + 1)
        self.refuses("more than 67108864 bytes", plugin.read_scale_file, path)


class Geometry(WithFolder):
    def setUp(self):
        super().setUp()
        self.file = self.read(scale_file())
        self.cache = plugin.Cache("layers.0.attn", "gqa", 4, 2, 64, 32)

    def check(self, tp_sizes=(1,), **changes):
        plugin.check_geometry(self.file.layers[0], dataclasses.replace(self.cache, **changes), list(tp_sizes))

    def test_layers(self):
        self.assertEqual(plugin.layer_for(self.file, "m", 2).index, 2)
        self.assertEqual(plugin.layer_for(self.file, "m", 3).index, 2)  # its owner's
        self.refuses(r"no scales for m \(layer 1\)", plugin.layer_for, self.file, "m", 1)

    def test_layers_left_over(self):
        plugin.check_all_used(self.file, {0, 2}, 0, 4, 4)
        plugin.check_all_used(self.file, {2}, 2, 4, 4)  # a pipeline stage checks its own
        plugin.check_all_used(self.file, {0}, 0, 2, 4)
        self.refuses(r"for layers \[2\]", plugin.check_all_used, self.file, {0}, 0, 4, 4)
        self.refuses(r"for layers \[2\]", plugin.check_all_used, self.file, {0}, 0, 2, 2)  # beyond the model's last

    def test_names(self):
        self.assertEqual(plugin.layer_index("language_model.model.layers.12.self_attn.attn"), 12)
        self.assertEqual(plugin.layer_index("transformer.h.3.attn.attn"), 3)
        self.assertEqual(plugin.layer_index("model.layers.7"), 7)
        self.assertIsNone(plugin.layer_index("model.sublayers.7.attn"))

    def test_heads_and_widths(self):
        self.check()
        self.check(tp_sizes=[2], n_heads=2, n_kv_heads=1)
        self.check(tp_sizes=[4], n_heads=1, n_kv_heads=1)  # two ranks share a KV head
        self.check(tp_sizes=[1, 2], n_heads=2, n_kv_heads=1)
        for changes in ({"n_heads": 8}, {"n_kv_heads": 4}, {"n_heads": 2, "n_kv_heads": 1}):
            self.refuses("another model", lambda c=changes: self.check(**c))
        self.refuses("64 and 64 wide .* 64 and 32", lambda: self.check(head_dim_v=64))
        self.refuses("128 and 32 wide", lambda: self.check(head_dim_k=128))
        self.refuses("keeps a mla cache, the scales are for gqa", lambda: self.check(kind="mla"))

    def test_architecture(self):
        plugin.check_architecture(self.file, ["LlamaForCausalLM"])
        self.refuses("is for LlamaForCausalLM, this model is Qwen3", plugin.check_architecture, self.file, ["Qwen3"])
        self.refuses("this model is unknown", plugin.check_architecture, self.file, None)

    def test_a_wrapper_is_its_text_model_too(self):
        text = types.SimpleNamespace(architectures=["LlamaForCausalLM"])
        wrapper = types.SimpleNamespace(architectures=["Wrapper"], text_config=text)
        plugin.check_architecture(self.file, PLUGINS["vllm"].known_architectures(wrapper))
        text.architectures = None
        self.refuses("this model is Wrapper", plugin.check_architecture, self.file, PLUGINS["vllm"].known_architectures(wrapper))


class MlaInSglang(unittest.TestCase):
    """Which settings let a latent row have a scale; the server's context is a stand-in."""

    def check(self, scale, backends, deterministic):
        space = types.SimpleNamespace
        context = types.ModuleType("sglang.srt.runtime_context")
        context.attention_backends = lambda: backends
        context.get_exec = lambda: space(deterministic=space(enable_deterministic_inference=deterministic))
        with mock.patch.dict(sys.modules, {context.__name__: context}):
            PLUGINS["sglang"]._check_mla(plugin.Layer(0, "mla", 4, 1, 576, 512, {"k": scale, "v": scale, "q": 1.0}, {}))

    def test_scale_one_is_harmless(self):
        self.check(1.0, ("flashmla", "flashmla"), False)

    def test_only_where_the_row_is_divided(self):
        self.check(0.5, ("triton", "triton"), True)
        for backends, deterministic in ((("triton", "triton"), False), (("triton", "flashmla"), True), (("fa3", None), True)):
            with self.assertRaisesRegex(PLUGINS["sglang"].ScaleError, "MLA with scale 0.5"):
                self.check(0.5, backends, deterministic)


class Heads(unittest.TestCase):
    def test_even_split(self):
        cut = plugin.heads_of_rank
        self.assertEqual([cut([1, 2, 3, 4], 2, rank, 2) for rank in range(2)], [[1, 2], [3, 4]])
        self.assertEqual(cut([1, 2, 3], 3, 0, 1), [1, 2, 3])

    def test_shared_heads(self):
        cut = [plugin.heads_of_rank([1, 2], 1, rank, 8) for rank in range(8)]
        self.assertEqual(cut, [[1]] * 4 + [[2]] * 4)
        self.assertEqual(plugin.heads_of_rank([7], 1, 3, 4), [7])

    def test_uneven_is_refused(self):
        for heads, n_local, tp in (([1, 2, 3], 2, 2), ([1, 2, 3], 1, 2), ([1, 2], 2, 2)):
            with self.assertRaises(plugin.ScaleError):
                plugin.heads_of_rank(heads, n_local, 0, tp)

    def test_query_groups(self):
        self.assertEqual(plugin.largest_per_group([1, 5, 4, 2, 3, 3], 2), [5, 3])
        self.assertEqual(plugin.largest_per_group([1, 5], 2), [1, 5])


class Weights(WithFolder):
    def checkpoint(self, tensors, name="model.safetensors"):
        """{name: bytes} as U8 tensors."""
        header, at = {}, 0
        for tensor, data in tensors.items():
            header[tensor] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
            at += len(data)
        text = json.dumps(header).encode()
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(tensors.values()))

    def fingerprint(self):
        return plugin.weights_fingerprint(self.folder, "model.", 2)

    def test_what_counts(self):
        base = {"model.embed_tokens.weight": bytes(range(256)) * 64, "model.layers.0.mlp.weight": b"abc", "lm_head.weight": b"x"}
        self.checkpoint(base)
        first = self.fingerprint()
        same = ("model.layers.0.self_attn.k_scale", "model.layers.0.self_attn.k_proj.k_zero_point", "model.layers.2.mlp.weight",
                "model.vision_tower.patch", "model.layers.0.self_attn.rotary_emb.inv_freq", "other.weight", "model.layers.0.mlp.input_scale",
                "model.layers.0.self_attn.q.scale", "model.layers.0.self_attn.v_cache.scale", "model.inv_freq", "model.mtp.fc.weight")
        for name in same:
            self.checkpoint({**base, name: b"1"})
            self.assertEqual(self.fingerprint(), first, name)
        for name in ("model.layers.1.mlp.weight", "model.layers.0.mlp.weight_scale"):
            self.checkpoint({**base, name: b"1"})
            self.assertNotEqual(self.fingerprint(), first, name)
        changed = bytearray(base["model.embed_tokens.weight"])
        changed[8000] ^= 1  # between the first and the last 4096 bytes
        self.checkpoint({**base, "model.embed_tokens.weight": bytes(changed)})
        self.assertEqual(self.fingerprint(), first)
        changed[4095] ^= 1
        self.checkpoint({**base, "model.embed_tokens.weight": bytes(changed)})
        self.assertNotEqual(self.fingerprint(), first)
        changed[4095] ^= 1
        changed[-4096] ^= 1
        self.checkpoint({**base, "model.embed_tokens.weight": bytes(changed)})
        self.assertNotEqual(self.fingerprint(), first)
        for renamed in ("lm_head.weight", "model.layers.0.mlp.weight"):
            self.checkpoint({k: v for k, v in base.items() if k != renamed})
            self.assertNotEqual(self.fingerprint(), first, renamed)

    def test_sharding_does_not_matter(self):
        tensors = {"model.embed_tokens.weight": b"abc", "model.layers.0.mlp.weight": b"def"}
        self.checkpoint(tensors)
        whole = self.fingerprint()
        names = ["model-1.safetensors", "model-2.safetensors"]
        for shard, (tensor, data) in zip(names, tensors.items()):
            self.checkpoint({tensor: data}, shard)
        self.write({"weight_map": dict(zip(tensors, names))}, "model.safetensors.index.json")
        os.remove(os.path.join(self.folder, "model.safetensors"))
        self.assertEqual(self.fingerprint(), whole)

    def test_verdicts(self):
        self.checkpoint({"model.embed_tokens.weight": b"abc"})
        of_this = self.fingerprint()
        model = scale_file()["model"]

        def check(allow=False, **changes):
            file = self.read(scale_file(model={**model, "n_layers": 2, **changes}))
            return plugin.check_weights(file, self.folder, allow, log)

        self.assertEqual(check(weights_fingerprint=of_this), "match")
        self.assertEqual(check(also_valid_for=["c" * 64, of_this]), "listed in also_valid_for")
        self.refuses(f"have the fingerprint {of_this}.*allow_other_weights", check)
        with self.assertLogs("vllm.kv_cache_scales", "WARNING") as logged:
            self.assertEqual(check(allow=True), "differ, allow_other_weights")
        self.assertIn(of_this, logged.output[0])
        os.remove(os.path.join(self.folder, "model.safetensors"))
        self.refuses(r"fingerprint unknown \(ValueError: 0 safetensors files", check)
        self.checkpoint({"model.embed_tokens.weight": b"abc"})
        os.truncate(os.path.join(self.folder, "model.safetensors"), 20)
        self.refuses("fingerprint unknown", check)


@unittest.skipUnless(os.access(KVCAL, os.X_OK), "no program; KVCAL=... names it")
class Recording(unittest.TestCase):
    def test_without_the_wheel_the_server_goes_on(self):
        starts = {"vllm": lambda p: p._record(types.SimpleNamespace(), None, None),
                  "sglang": lambda p: p._start_recording(types.SimpleNamespace(model=None))}
        for server, start in starts.items():
            with mock.patch.dict(sys.modules, {"kvcal": None}), self.assertLogs(PLUGINS[server].log, "ERROR") as said:
                start(PLUGINS[server])
            self.assertRegex(said.output[0], "kv-cache-record: nothing is recorded: it needs the wheel kvcal")

    def test_drafts_of_sglang_are_left_alone(self):
        self.assertIsNone(PLUGINS["sglang"]._start_recording(None, is_draft_worker=True))


class SameAsTheProgram(WithFolder):
    """Every golden checkpoint: the plug-ins' fingerprint against what `kvcal calibrate` writes into the file."""

    def test_goldens(self):
        cases = sorted(os.path.dirname(p) for p in glob.glob(os.path.join(GOLDEN, "*", "golden.json")))
        self.assertGreater(len(cases), 50)
        for case in cases:
            with open(os.path.join(case, "golden.json")) as file:
                tokens = json.load(file)["sequences"][0]
            prompts = self.write(json.dumps({"input_ids": tokens}) + "\n", "prompts.jsonl")
            scales = os.path.join(self.folder, "scales.json")
            command = [KVCAL, "calibrate", case, "--prompts", prompts, "--no-sanity", "-q", "--force", "-o", scales]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            file = plugin.read_scale_file(scales)
            actual = plugin.weights_fingerprint(case, file.model["tensor_prefix"], file.model["n_layers"])
            self.assertEqual(actual, file.model["weights_fingerprint"], case)

    def test_folded(self):
        case = os.path.join(GOLDEN, "qwen3")
        prompts = self.write('{"input_ids": [1, 2, 3, 4, 5, 6, 7]}\n', "prompts.jsonl")
        scales, statistics, folded = (os.path.join(self.folder, n) for n in ("scales.json", "run.kvstats", "folded"))

        def calibrate(model):
            command = [KVCAL, "calibrate", model, "--prompts", prompts, "--no-sanity", "-q", "--force", "-o", scales]
            subprocess.run([*command, "--stats", statistics], check=True, stderr=subprocess.DEVNULL)
            return plugin.read_scale_file(scales).model

        original = calibrate(case)
        subprocess.run([KVCAL, "fold", case, "--stats", statistics, "--force", "--json", "-o", folded],
                       check=True, stdout=subprocess.DEVNULL)
        model = calibrate(folded)
        self.assertNotEqual(model["weights_fingerprint"], original["weights_fingerprint"])
        actual = plugin.weights_fingerprint(folded, model["tensor_prefix"], model["n_layers"])
        self.assertEqual(actual, model["weights_fingerprint"])


if __name__ == "__main__":
    unittest.main()
