"""kvcal.torch: the same tokens give the same counts, however they were batched, padded, cached or divided among processes."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import package
import numpy as np
import torch
import transformers
from transformers import DynamicCache

import kvcal.torch
from kvcal import torch_calibrate
from kvcal.kvstats import StatisticsError
from statistics_file import StatisticsFile, sites_of

GOLDEN = package.SOURCE / "tests/arch/golden"
COMMAND = Path(__file__).with_name("command.py")
DEMO = package.SOURCE / "datasets/demo/natural"
SEQUENCES = [[5, 9, 33, 2, 71, 40, 8], [12, 12, 64, 3], [7, 88, 21, 30, 90, 11, 4, 6, 13]]


def load(name, **more):
    folder = GOLDEN / name
    kind = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
    return kind.from_pretrained(folder, dtype=torch.float32, **more).eval()


def alone(model):
    for ids in SEQUENCES:
        model(input_ids=torch.tensor([ids]))


def padded(model, side):
    width = max(map(len, SEQUENCES))
    rows, masks = [], []
    for ids in SEQUENCES:
        fill = [0] * (width - len(ids))
        rows.append(ids + fill if side == "right" else fill + ids)
        masks.append([1] * len(ids) + fill if side == "right" else fill + [1] * len(ids))
    return torch.tensor(rows), torch.tensor(masks)


class Counted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        torch.set_grad_enabled(False)
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()

    def counts(self, model, feed):
        with kvcal.torch.observe(model) as stats:
            feed(model)
        return stats.caches()

    def assert_same(self, found, expected, places=True):
        """All codes but those of values at the edge of a rounding, which batches compute a little differently."""
        self.assertEqual([c.layout for c in found], [c.layout for c in expected])
        for a, b in zip(found, expected):
            for site, counts in a.sites.items():
                other = b.sites[site]
                self.assertEqual(counts.n_tokens, other.n_tokens, site)
                apart = np.abs(counts.codes - other.codes).sum() // 2
                self.assertLessEqual(apart, 2 + counts.codes.sum() // 500, f"layer {a.layout.layer}, {site}")
                same = counts.absmax == other.absmax
                self.assertGreater(same.mean(), 0.5)
                if places:
                    np.testing.assert_array_equal(counts.where[same], other.where[same])
                self.assertLessEqual(np.abs(counts.prompt_absmax.astype(int) - other.prompt_absmax).max(), 1)


class Batches(Counted):
    def test_padding_on_either_side_does_not_count(self):
        for name in ("llama", "gemma3", "deepseek_v3", "gpt2"):
            model = load(name)
            expected = self.counts(model, alone)
            for side in ("left", "right"):
                with self.subTest(name, side=side):
                    ids, mask = padded(model, side)
                    positions = (mask.cumsum(1) - 1).clamp(min=0)
                    found = self.counts(model, lambda m: m(input_ids=ids, attention_mask=mask, position_ids=positions))
                    self.assert_same(found, expected)

    def test_token_by_token_is_the_same_as_at_once(self):
        def decode(model):
            for ids in SEQUENCES:
                cache = DynamicCache(config=model.config)
                for token in ids:
                    model(input_ids=torch.tensor([[token]]), past_key_values=cache)

        for name in ("llama", "gemma3", "deepseek_v3", "gemma4"):
            with self.subTest(name):
                model = load(name)
                self.assert_same(self.counts(model, decode), self.counts(model, alone))

    def test_generation_counts_all_tokens_but_the_last(self):
        for name in ("llama", "mistral_window"):
            model = load(name)
            ids, mask = padded(model, "left")
            for kind in ("dynamic", "static"):
                with self.subTest(name, cache=kind):
                    with kvcal.torch.observe(model) as stats:
                        out = model.generate(ids, attention_mask=mask, max_new_tokens=6, min_new_tokens=6, do_sample=False,
                                             cache_implementation=kind, pad_token_id=0)
                    whole = [row[row.shape[0] - len(x) - 6 : -1].tolist() for row, x in zip(out, SEQUENCES)]
                    self.assertEqual(stats.feed.n_tokens, [len(x) + 5 for x in SEQUENCES])
                    expected = self.counts(model, lambda m: [m(input_ids=torch.tensor([row])) for row in whole])
                    self.assert_same(stats.caches(), expected)

    def test_what_is_run_outside_is_not_counted(self):
        model, other = load("llama"), load("qwen3")
        with kvcal.torch.observe(model) as stats:
            other(input_ids=torch.tensor([[1, 2, 3]]))
            alone(model)
        alone(model)
        self.assertEqual({c.sites["key"].n_tokens for c in stats.caches()}, {20})


class Command(Counted):
    PROMPTS = [
        {"id": "a", "text": "The quick brown fox jumps over the lazy dog."},
        {"id": "c", "tags": ["chat"],
         "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]},
        {"id": "b", "conversations": [{"from": "human", "value": "What is two plus two?"}], "tags": ["chat", "math"]},
        {"text": "import os\nprint(1)"},
        {"id": "ids", "input_ids": [1, 2, 3, 4, 5]},
    ]

    def setUp(self):
        super().setUp()
        self.prompts = self.folder / "prompts.jsonl"
        self.prompts.write_text("".join(json.dumps(record) + "\n" for record in self.PROMPTS))

    def calibrate(self, *more, out="run.kvstats"):
        return torch_calibrate.main(["calibrate", str(DEMO), "-p", str(self.prompts), "-o", str(self.folder / out), *more])

    def kvcal(self, *arguments):
        done = subprocess.run([package.KVCAL, *map(str, arguments)], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done

    def test_tokens_and_codes_are_the_programs(self):
        """Equal scale files from the same prompts, in f32, but for what attention was sampled for."""
        self.assertEqual(self.calibrate("--dtype", "f32"), 0)
        self.kvcal("calibrate", DEMO, "-p", self.prompts, "--passes", 1, "--precision", "f32", "-q",
                   "--stats", self.folder / "own.kvstats", "-o", self.folder / "own.json")
        ours, own = (StatisticsFile(self.folder / name) for name in ("run.kvstats", "own.kvstats"))
        for block in ("model", "layers_without_kv", "tokenizer_sha256", "tags", "caches"):
            self.assertEqual(ours.metadata[block], own.metadata[block])
        self.assertEqual(bytes(ours.tensors["prompt_ids"]), bytes(own.tensors["prompt_ids"]))
        for cache, layout in enumerate(own.metadata["caches"]):
            for site in sites_of(layout):
                np.testing.assert_array_equal(ours.site(cache, site)["n_tokens"], own.site(cache, site)["n_tokens"])
                np.testing.assert_array_equal(ours.site(cache, site)["absmax"], own.site(cache, site)["absmax"])

    def test_what_follows_takes_the_file(self):
        self.assertEqual(self.calibrate(), 0)
        run, scales = self.folder / "run.kvstats", self.folder / "scales.json"
        self.kvcal("solve", run, "-o", scales)
        self.kvcal("validate", scales, "--model", DEMO)
        self.kvcal("export", scales, "--model", DEMO, "-o", self.folder / "exported")
        self.kvcal("report", run, "-o", self.folder / "report.html")
        self.assertTrue(json.loads(scales.read_text())["calibration"]["tool_version"].startswith("kvcal.torch "))

    def test_two_processes_of_torchrun_merge_to_the_bytes_of_one(self):
        self.assertEqual(self.calibrate(), 0)
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", str(COMMAND), "calibrate", str(DEMO),
                   "-p", str(self.prompts), "-o", str(self.folder / "part.kvstats"), "--shard", "auto"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.kvcal("merge", self.folder / "part.2-of-2.kvstats", self.folder / "part.1-of-2.kvstats",
                   "-o", self.folder / "merged.kvstats")
        self.assertEqual((self.folder / "merged.kvstats").read_bytes(), (self.folder / "run.kvstats").read_bytes())


class Sound(Counted):
    def test_tokens_of_an_audio_tower_count_as_its_rows_do(self):
        tower = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_mel_bins=8,
                     max_source_positions=16)
        text = dict(model_type="llama", vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2, head_dim=8)
        torch.manual_seed(1)
        model = transformers.VoxtralForConditionalGeneration(
            transformers.VoxtralConfig(audio_config=tower, text_config=text, audio_token_id=92)).eval()
        sound = torch.randn(1, 8, 32)
        rows = model.get_audio_features(sound).pooler_output.reshape(-1, 32)
        ids = torch.tensor([[5, 6] + [92] * len(rows) + [7, 8, 9]])
        embeds = model.get_input_embeddings()(ids)
        embeds[0, 2:-3] = rows
        with kvcal.torch.observe(model) as stats:
            model(input_ids=ids, input_features=sound)
        self.assertEqual((stats.feed.n_tokens, stats.feed.n_image_tokens), ([ids.numel()], len(rows)))
        self.assert_same(stats.caches(), self.counts(model, lambda m: m(inputs_embeds=embeds)))


class Loaded(Counted):
    """Ways in which transformers loads a model."""

    def test_layers_on_the_disk(self):
        names = ["model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"]
        places = {name: "cpu" for name in names} | {f"model.layers.{i}": "disk" if i % 2 else "cpu" for i in range(3)}
        spread = load("llama", device_map=places, offload_folder=str(self.folder))
        self.assertEqual(spread.model.layers[1].mlp.up_proj.weight.device.type, "meta")
        found, expected = self.counts(spread, alone), self.counts(load("llama"), alone)
        for a, b in zip(found, expected):
            for site, counts in a.sites.items():
                np.testing.assert_array_equal(counts.codes, b.sites[site].codes)

    def test_weights_in_eight_bits(self):
        model = load("llama", quantization_config=transformers.BitsAndBytesConfig(load_in_8bit=True))
        values = [[] for _ in model.model.layers]
        for layer, seen in zip(model.model.layers, values):
            self.assertEqual(layer.self_attn.v_proj.weight.dtype, torch.int8)
            layer.self_attn.v_proj.register_forward_hook(lambda module, args, out, seen=seen: seen.append(out[0]))
        for cache, seen in zip(self.counts(model, alone), values):
            heads = torch.cat(seen).unflatten(-1, (cache.layout.n_kv_heads, -1)).bfloat16().abs()
            codes = heads.transpose(0, 1).flatten(1).view(torch.int16).numpy()
            for head, expected in enumerate(codes):
                counted = cache.sites["value"].codes[head]
                np.testing.assert_array_equal(counted, np.bincount(expected, minlength=counted.size))


class Refusals(Counted):
    def refusal(self, *arguments):
        """What the command says; one line."""
        done = subprocess.run([sys.executable, str(COMMAND), "calibrate", *map(str, arguments)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse((self.folder / "x.kvstats").exists())
        return done.stderr

    def test_of_the_command_are_one_line(self):
        prompts, out = self.folder / "p.jsonl", self.folder / "x.kvstats"
        prompts.write_text('{"input_ids": [1, 2, 3]}\n')
        self.assertIn("no such folder", self.refusal(self.folder / "nothing", "-p", prompts, "-o", out))
        self.assertIn("No such file", self.refusal(DEMO, "-p", self.folder / "no.jsonl", "-o", out))
        self.assertIn("cannot be divided", self.refusal(DEMO, "-p", prompts, "-o", out, "--shard", "1/2"))
        prompts.write_text('{"input_ids": [1]}\n')
        self.assertIn("only first tokens", self.refusal(DEMO, "-p", prompts, "-o", out))
        prompts.write_text('{"txt": "a"}\n')
        self.assertIn("p.jsonl:1: has no content", self.refusal(DEMO, "-p", prompts, "-o", out))

    def test_statistics_of_nothing(self):
        with kvcal.torch.observe(load("llama")) as stats:
            pass
        with self.assertRaisesRegex(StatisticsError, "put nothing into a cache"):
            stats.save(self.folder / "x.kvstats")

    def test_classes_whose_queries_or_cache_cannot_be_seen(self):
        with self.assertRaisesRegex(StatisticsError, "layer 0 of FalconForCausalLM: its queries do not pass"):
            self.counts(load("falcon"), alone)
        config = transformers.T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=16)
        with self.assertRaisesRegex(StatisticsError, "T5ForConditionalGeneration is an encoder with a decoder"):
            self.counts(transformers.T5ForConditionalGeneration(config), alone)

    def test_numbers_that_are_none(self):
        model = load("llama")
        model.model.layers[1].self_attn.k_proj.weight[0, 0] = float("nan")
        with self.assertRaisesRegex(StatisticsError, "layer 1, key, head 0: infinity or NaN"):
            self.counts(model, alone)

    def test_more_sequences_than_ids(self):
        with self.assertRaisesRegex(StatisticsError, "more sequences than the 2 prompt ids"):
            model = load("llama")
            with kvcal.torch.observe(model, ["a", "b"]):
                alone(model)


if __name__ == "__main__":
    unittest.main()
