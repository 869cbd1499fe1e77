"""Statistics files that Python writes, as the program reads them. Needs NumPy and the program; ctest runs it where both are.

Numbers go in as arrays, are counted here value by value, and must come out of every verb that reads statistics.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("no numpy here: skipped")
    sys.exit(77)

SOURCE = Path(__file__).resolve().parents[2]
KVCAL = os.environ.get("KVCAL", str(SOURCE / "build/release/kvcal"))


def load_module(name):
    """A module of the wheel by itself: the package imports what only the build makes."""
    spec = importlib.util.spec_from_file_location(name, SOURCE / f"apps/python/kvcal/{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


kvstats = load_module("kvstats")
DIGEST = "0123456789abcdef" * 4
N_LAYERS, HEADS, KV_HEADS, WIDTH = 3, 4, 2, 8  # layer 1 has no cache
LENGTHS = {"p1": 5, "p2": 9, "p3": 1}


def codes_of(x):
    """bf16 bits of float32 values, to nearest even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def magnitude(codes):
    """The largest."""
    return float((codes.max().astype(np.uint32) << 16).view(np.float32))


def count(site, extent, prompts, pair_bound="none"):
    """Of [[tokens, heads, width] of each prompt], one value at a time."""
    counts = kvstats.SiteCounts.zeros(site, extent, len(prompts))
    best = np.full(extent.heads, -1)
    for prompt, x in enumerate(prompts):
        bits = codes_of(x)
        for (token, head, channel), word in np.ndenumerate(bits):
            code, sign = int(word & 0x7FFF), -1 if word >> 15 else 1
            octave, m = code >> 7, (code & 127) + (128 if code >= 128 else 0)
            counts.codes[head, code] += 1
            if code >= kvstats.INFINITY:
                continue
            counts.channel_sum_m2[head, channel, octave] += m * m
            if site != "query":
                counts.channel_sum_m[head, channel, octave] += m
                counts.channel_signed_sum_m[head, channel, octave] += sign * m
                counts.channel_count[head, channel, octave] += 1
                counts.channel_absmax[head, channel] = max(counts.channel_absmax[head, channel], code)
            if code > best[head]:
                best[head] = code
                counts.where[head] = (1, prompt, token, token, head, channel)
            bucket = token.bit_length()
            counts.position_absmax[bucket] = max(counts.position_absmax[bucket], code)
            counts.prompt_absmax[0, prompt] = max(counts.prompt_absmax[0, prompt], code)
        largest = np.where((bits & 0x7FFF) < kvstats.INFINITY, bits & 0x7FFF, 0).max(axis=2)
        for (_, head), code in np.ndenumerate(largest):
            counts.token_octaves[head, code >> 7] += 1
        for pair in range(extent.pairs):
            a, b = (pair, pair + extent.pairs) if pair_bound == "neox" else (2 * pair, 2 * pair + 1)
            values = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
            norm = np.sqrt(values[..., a] ** 2 + values[..., b] ** 2).max(axis=0, initial=0)
            counts.pair_norm[:, pair] = np.maximum(counts.pair_norm[:, pair], norm)
        counts.n_tokens += len(x)
    return counts


def run_of(prompt_ids, n_tokens, **more):
    model = {"architecture": "UnknownForCausalLM", "model_type": "unknown", "n_layers": N_LAYERS, "n_kv_layers": 2,
             "max_positions": 512, "tensor_prefix": "model.", "config_sha256": DIGEST, "weights_fingerprint": DIGEST,
             "also_valid_for": []}
    calibration = {"prompts_sha256": DIGEST, "plan_sha256": DIGEST, "n_prompts": len(prompt_ids), "n_tokens": n_tokens,
                   "longest": 9, "max_length": 2048, "passes": 1, "precision": "f32", "isa": "torch",
                   "tool_version": "kvcal.torch 0 (a test)"}
    return kvstats.Run(model, [{"index": 1, "kind": "gated_delta_net"}], calibration, prompt_ids, **more)


def layout(layer, pair_bound="neox", **more):
    sizes = dict(n_heads=HEADS, n_kv_heads=KV_HEADS, head_dim_k=WIDTH, head_dim_v=WIDTH, rotary_dim=WIDTH)
    return kvstats.Layout(layer, f"layers.{layer}.self_attn", softmax_scale=0.25, pair_bound=pair_bound,
                          **{**sizes, **more})


PARTS = {"key": ["key"], "value": ["value"], "latent": ["latent", "rope"], "query": ["query"]}
LATENT = dict(kind="mla", n_kv_heads=1, head_dim_k=12, head_dim_v=8, latent_dim=8, rotary_dim=4, pair_bound="gptj")


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def kvcal(self, *arguments, code=0):
        done = subprocess.run([KVCAL, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def values(self, seed=1):
        """{(layer, site): [x of each prompt]}: sizes over many octaves, zeros, a value that bf16 rounds up."""
        random = np.random.default_rng(seed)
        drawn = {}
        for cache in self.layouts():
            for site, extent in cache.sites().items():
                prompts = [random.normal(size=(n, extent.heads, extent.width)) * 2.0 ** random.integers(-9, 5, extent.width)
                           for n in LENGTHS.values()]
                prompts[1][3, 0, 2], prompts[0][0, 0, 0] = -100.3 - cache.layer, 0
                drawn[cache.layer, site] = prompts
        return drawn

    def layouts(self):
        return [layout(0), layout(2, **LATENT)]

    def caches(self, values):
        return [kvstats.Cache(cache, {site: count(site, extent, values[cache.layer, site], cache.pair_bound)
                                      for site, extent in cache.sites().items()}) for cache in self.layouts()]

    def write(self, name="run.kvstats", **more):
        path = self.folder / name
        self.values_in_it = self.values()
        kvstats.write(path, run_of(list(LENGTHS), sum(LENGTHS.values()), **more), self.caches(self.values_in_it))
        return path


class Verbs(WithFolder):
    def test_merging_one_file_gives_its_bytes(self):
        path = self.write(tags={"code": [0, 2], "chat": [1]})
        again = self.folder / "again.kvstats"
        self.kvcal("merge", path, "-o", again)
        self.assertEqual(path.read_bytes(), again.read_bytes())

    def test_every_verb_takes_it_and_says_what_was_put_in(self):
        path, scales, page = self.write(), self.folder / "scales.json", self.folder / "report.html"
        self.kvcal("stats", path)
        self.kvcal("validate", path)
        self.kvcal("solve", path, "-o", scales)
        self.kvcal("validate", scales)
        self.kvcal("report", path, "-o", page)
        self.assertIn("kvcal.torch 0 (a test)", page.read_text())
        file = json.loads(scales.read_text())
        self.assertEqual(file["calibration"]["tool_version"], "kvcal.torch 0 (a test)")
        self.assertEqual(file["layers_without_kv"], [{"index": 1, "kind": "gated_delta_net"}])
        for found in file["layers"]:
            for site, parts in PARTS.items():
                seen = [x for part in parts for x in self.values_in_it.get((found["index"], part), []) if site in found]
                if seen:
                    self.assertEqual(found[site]["absmax"], max(magnitude(codes_of(x) & 0x7FFF) for x in seen))

    def test_shards_merge_to_the_bytes_of_one_run(self):
        whole = self.write()
        for index in (1, 2):
            part = {key: [x if prompt % 2 == index - 1 else x[:0] for prompt, x in enumerate(prompts)]
                    for key, prompts in self.values().items()}
            run = run_of(list(LENGTHS), sum(LENGTHS.values()), shard=(index, 2))
            kvstats.write(self.folder / f"{index}.kvstats", run, self.caches(part))
        self.kvcal("merge", self.folder / "2.kvstats", self.folder / "1.kvstats", "-o", self.folder / "merged.kvstats")
        self.assertEqual((self.folder / "merged.kvstats").read_bytes(), whole.read_bytes())

    def test_infinities_and_nans_are_counted_and_refused_on_demand(self):
        values = self.values()
        values[2, "query"][0][4, 1, 3], values[2, "query"][0][4, 1, 4] = np.inf, np.nan
        caches = self.caches(values)
        with self.assertRaisesRegex(kvstats.StatisticsError, "^layer 2, query, head 1: infinity or NaN"):
            kvstats.check_finite(caches)
        kvstats.write(self.folder / "live.kvstats", run_of(list(LENGTHS), sum(LENGTHS.values())), caches)
        self.kvcal("merge", self.folder / "live.kvstats", "-o", self.folder / "again.kvstats")


class Refusals(WithFolder):
    def test_nothing_is_overwritten_or_left_half_written(self):
        path = self.write()
        with self.assertRaisesRegex(kvstats.StatisticsError, "exists already"):
            self.write()
        kvstats.write(path, run_of(list(LENGTHS), 15), self.caches(self.values(2)), replace=True)
        with self.assertRaisesRegex(kvstats.StatisticsError, "^layer 0, key: no token was seen$"):
            none = {key: [x[:0] for x in prompts] for key, prompts in self.values().items()}
            kvstats.write(self.folder / "none.kvstats", run_of(list(LENGTHS), 15), self.caches(none))
        self.assertEqual([p.name for p in self.folder.iterdir()], ["run.kvstats"])

    def test_of_no_cache_or_unsorted_prompts(self):
        with self.assertRaisesRegex(kvstats.StatisticsError, "no layer has put anything into a cache"):
            kvstats.write(self.folder / "x", run_of(["a"], 1), [])
        with self.assertRaisesRegex(kvstats.StatisticsError, "prompt ids"):
            kvstats.write(self.folder / "x", run_of(["p2", "p1", "p3"], 15), self.caches(self.values()))


if __name__ == "__main__":
    unittest.main()
