"""The recorder of the server plug-ins, without a server: what it counts against a count of one value after the other, what its
files hold, what goes wrong. Needs PyTorch, NumPy and the program; ctest runs it where they are.
"""

import datetime
import importlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import types
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

try:
    import numpy as np
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:
    print("no torch here: skipped")
    sys.exit(77)

SOURCE = Path(__file__).resolve().parents[2]
KVCAL = os.environ.get("KVCAL", str(SOURCE / "build/release/kvcal"))
package = types.ModuleType("kvcal")  # the package itself imports what only the build makes
package.__path__, package.__version__ = [str(SOURCE / "apps/python/kvcal")], "0"
sys.modules["kvcal"] = package
sys.path.append(str(SOURCE / "apps/plugins"))

from kvcal import kvstats, recorder  # noqa: E402

DIGEST = "0123456789abcdef" * 4
HEADS, KV_HEADS, WIDTH, LAYERS = 4, 2, 16, (0, 2)


def layout(layer, heads=HEADS, kv_heads=KV_HEADS, **more):
    options = dict(softmax_scale=0.25, rotary_dim=8, pair_bound="gptj" if layer else "neox")
    return kvstats.Layout(layer, f"layers.{layer}.self_attn", heads, kv_heads, WIDTH, WIDTH, **{**options, **more})


def latent_layout(heads=HEADS):
    return replace(layout(0, heads, 1, kind="mla", latent_dim=WIDTH - 8, pair_bound="gptj"), head_dim_v=WIDTH - 8)


def record(layouts):
    model = {"architecture": "UnknownForCausalLM", "model_type": "unknown", "n_layers": 3, "n_kv_layers": 2,
             "max_positions": 512, "tensor_prefix": "model.", "config_sha256": DIGEST, "weights_fingerprint": DIGEST,
             "also_valid_for": []}
    calibration = {"prompts_sha256": DIGEST, "plan_sha256": DIGEST, "n_prompts": 1, "n_tokens": 1, "longest": 9,
                   "max_length": 2048, "passes": 1, "precision": "bf16", "isa": "avx2", "tool_version": "kvcal 0"}
    run = kvstats.Run(model, [{"index": 1, "kind": "gated_delta_net"}], calibration, ["a"])
    return run.to_json([kvstats.Cache(x, {}) for x in layouts])


def values_of(step, layouts, n):
    """{(layer, site): bf16 [n, heads, width]} over many octaves, with zeros of both signs and equal magnitudes."""
    random = torch.Generator().manual_seed(step)
    drawn = {}
    for cache in layouts:
        for site, extent in cache.sites().items():
            shape = (n, extent.heads, extent.width)
            x = torch.randn(shape, generator=random) * 2.0 ** torch.randint(-30, 20, shape, generator=random)
            x[torch.rand(shape, generator=random) < 0.1] *= 0
            drawn[cache.layer, site] = x.to(torch.bfloat16)
    return drawn


def counted(site, extent, pair_bound, windows):
    """Of [[(x [heads, width], position), ...] of each window], one value after the other."""
    counts = kvstats.SiteCounts.zeros(site, extent, len(windows))
    seen = {}
    for window, rows in enumerate(windows):
        for x, position in rows:
            counts.n_tokens += 1
            bits = x.view(torch.int16).numpy().astype(np.int64) & 0xFFFF
            for head in range(extent.heads):
                finite = [int(w & 0x7FFF) for w in bits[head] if w & 0x7FFF < kvstats.INFINITY]
                counts.token_octaves[head, max(finite, default=0) >> 7] += 1
                for channel, word in enumerate(bits[head]):
                    code, sign = int(word & 0x7FFF), -1 if word >> 15 else 1
                    counts.codes[head, code] += 1
                    if code >= kvstats.INFINITY:
                        continue
                    octave, m = code >> 7, (code & 127) + (128 if code >= 128 else 0)
                    counts.channel_sum_m2[head, channel, octave] += m * m
                    if site != "query":
                        counts.channel_sum_m[head, channel, octave] += m
                        counts.channel_signed_sum_m[head, channel, octave] += sign * m
                        counts.channel_count[head, channel, octave] += 1
                        counts.channel_absmax[head, channel] = max(counts.channel_absmax[head, channel], code)
                    place = (-code, window, position, channel)
                    if place < seen.get(head, (1,)):
                        seen[head] = place
                        counts.where[head] = (1, window, position, position, head, channel)
                    bucket = position.bit_length()
                    counts.position_absmax[bucket] = max(counts.position_absmax[bucket], code)
                    counts.prompt_absmax[0, window] = max(counts.prompt_absmax[0, window], code)
                for pair in range(extent.pairs):
                    a, b = (pair, pair + extent.pairs) if pair_bound == "neox" else (2 * pair, 2 * pair + 1)
                    p, q = (0.0 if bits[head][c] & 0x7FFF >= kvstats.INFINITY else float(x[head, c]) for c in (a, b))
                    counts.pair_norm[head, pair] = max(counts.pair_norm[head, pair], np.sqrt(p * p + q * q))
    return counts


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def recorder(self, layouts=None, part="", heads=None, **options):
        layouts = layouts or [layout(layer) for layer in LAYERS]
        given = recorder.Options(**{"to": str(self.folder / "live.kvstats"), "like": "unused", **options})
        return recorder.Recorder(given, layouts, record(layouts), torch.device("cpu"), part, heads)

    def feed(self, made, step, n=7, padding=3, values=None, layouts=None):
        """A step of n tokens, with rows behind them that are padding."""
        layouts = layouts or [layout(layer) for layer in LAYERS]
        values = values or values_of(step, layouts, n + padding)
        positions = torch.arange(n) * 5 + step
        with made.step(positions):
            if made.active:
                for cache in layouts:
                    made.add(cache.layer, **{site: values[cache.layer, site] for site in cache.sites()})
        return values, positions

    def kvcal(self, *arguments, code=0):
        done = subprocess.run([KVCAL, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout + done.stderr

    def assert_same(self, actual, expected):
        for name in kvstats.SiteCounts.__dataclass_fields__:
            a, b = getattr(actual, name), getattr(expected, name)
            self.assertTrue(np.array_equal(a, b) if isinstance(b, np.ndarray) else a == b, f"{name}: {a} {b}")


class Counts(WithFolder):
    def check(self, windows, **options):
        """`windows`: numbers of the steps of each."""
        made = self.recorder(**options)
        rows = {}
        for window, steps in enumerate(windows):
            for step in steps:
                values, positions = self.feed(made, step)
                for key, x in values.items():
                    rows.setdefault(key, [[] for _ in windows])[window] += [(x[i], int(p)) for i, p in enumerate(positions)]
            made._hand_over()
            made._thread.join()
        run, caches = made.run()
        self.assertEqual(len(run.prompt_ids), len(windows))
        for cache in caches:
            for site, counts in cache.sites.items():
                extent = cache.layout.sites()[site]
                self.assert_same(counts, counted(site, extent, cache.layout.pair_bound, rows[cache.layout.layer, site]))
        return made

    def test_one_value_after_the_other(self):
        self.check([[1], [2, 3], [1]], every=1, window=1000)

    def test_in_chunks(self):
        before, recorder.CHUNK_ELEMENTS = recorder.CHUNK_ELEMENTS, 3 * KV_HEADS * WIDTH
        self.addCleanup(setattr, recorder, "CHUNK_ELEMENTS", before)
        self.check([[5, 6]], every=1, window=1000)

    def test_what_is_not_finite(self):
        made = self.recorder(every=1, window=1)
        layouts = [layout(layer) for layer in LAYERS]
        values = values_of(9, layouts, 10)
        for site in ("key", "value", "query"):
            values[0, site][2, 1, 3], values[0, site][3, 0, 0] = float("nan"), -float("inf")
            values[2, site][:, 1] = float("inf")
        _, positions = self.feed(made, 9, values=values)
        made.close()
        _, caches = made.run()
        for cache in caches:
            for site, counts in cache.sites.items():
                rows = [[(values[cache.layout.layer, site][i], int(p)) for i, p in enumerate(positions)]]
                self.assert_same(counts, counted(site, cache.layout.sites()[site], cache.layout.pair_bound, rows))
        self.kvcal("merge", made.path, "-o", self.folder / "again.kvstats")

    def test_float16_and_float32_count_as_bf16(self):
        for dtype in (torch.float16, torch.float32):
            made, plain = self.recorder(every=1), self.recorder(every=1)
            layouts = [layout(layer) for layer in LAYERS]
            values = {key: (x.float().clamp(-100, 100) * 1.003).to(dtype) for key, x in values_of(4, layouts, 10).items()}
            self.feed(made, 4, values=values)
            self.feed(plain, 4, values={key: x.to(torch.bfloat16) for key, x in values.items()})
            made.close(), plain.close()
            for a, b in zip(made.run()[1], plain.run()[1]):
                for site in a.sites:
                    self.assert_same(a.sites[site], b.sites[site])


class Steps(WithFolder):
    def test_every_third(self):
        made = self.recorder(every=3, window=1000)
        recorded = []
        for step in range(7):
            with made.step(torch.arange(2)):
                recorded.append(made.active)
        with made.step(None):  # no tokens: no step
            self.assertFalse(made.active)
        self.assertEqual(recorded, [True, False, False, True, False, False, True])

    def test_the_file_appears_at_the_interval_and_at_the_end(self):
        made = self.recorder(every=1, window=2)
        self.feed(made, 1)
        self.assertFalse(made.path.exists())
        self.feed(made, 2)
        made._thread.join()
        first = made.path.read_bytes()
        self.feed(made, 3)
        self.assertEqual(made.path.read_bytes(), first)
        made.close()
        self.assertNotEqual(made.path.read_bytes(), first)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["live.kvstats"])
        shown = json.loads(self.kvcal("stats", made.path, "--json"))
        self.assertEqual(shown["n_prompts"], 2)
        self.assertEqual(shown["calibration"]["longest"], 6 * 5 + 3 + 1)
        self.assertEqual(shown["layers"][1]["value"]["tokens"], 21)
        self.assertIn("recorder", shown["calibration"]["tool_version"])
        for verb in ("validate", "report"):
            self.kvcal(verb, made.path, *(["-o", self.folder / "x.html"] if verb == "report" else []))
        self.kvcal("merge", made.path, "-o", self.folder / "again.kvstats")
        self.assertEqual((self.folder / "again.kvstats").read_bytes(), made.path.read_bytes())

    def test_windows_become_fewer(self):
        before, recorder.MAX_WINDOWS = recorder.MAX_WINDOWS, 4
        self.addCleanup(setattr, recorder, "MAX_WINDOWS", before)
        made = self.recorder(every=1, window=1)
        for step in range(5):
            self.feed(made, step)
            made._thread.join()
        made.close()
        run, caches = made.run()
        self.assertEqual(len(run.prompt_ids), 3)
        self.assertEqual(made._window, 2)
        self.assertEqual(caches[0].sites["key"].n_tokens, 35)
        self.kvcal("stats", made.path)

    def test_cost_of_a_step(self):
        class Count(TorchDispatchMode):
            def __init__(self):
                super().__init__()
                self.n = Counter()

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                self.n[func.overloadpacket.__name__] += 1
                return func(*args, **(kwargs or {}))

        made = self.recorder(every=2, window=1000)
        values = values_of(0, [layout(layer) for layer in LAYERS], 10)
        with Count() as ops:
            self.feed(made, 0, values=values)
        waits = {"item", "_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "_to_cpu"}
        self.assertFalse(waits & set(ops.n), ops.n)
        views = {"view", "slice", "unsqueeze", "expand", "_unsafe_view", "flatten", "detach", "reshape", "alias"}
        kernels = sum(n for name, n in ops.n.items() if name not in views)
        self.assertLessEqual(kernels, 2 * 3 * 55, ops.n)
        made_bytes = made.device_bytes
        with Count() as ops:
            with made.step(torch.arange(3)):
                pass
        self.assertEqual(sum(n for name, n in ops.n.items() if name != "arange"), 0, ops.n)
        self.assertEqual(made.device_bytes, made_bytes)
        self.assertEqual(made_bytes, sum(
            extent.heads * (4 * 0x8000 + 4 * 256 + 8 + 8 * extent.pairs) + 4 * 64
            + extent.heads * extent.width * (256 * 8 if site == "query" else 256 * 16 + 4)
            for layer in LAYERS for site, extent in layout(layer).sites().items()))


class Ranks(WithFolder):
    def recorded(self, rank, size, whole, of_rank):
        """Steps 1 to 3 as a rank sees them, by a clock that stands still. `whole`: layouts of the model."""
        heads = {"rank": rank, "size": size, "n_kv_heads": [x.n_kv_heads for x in whole]}
        made = self.recorder(of_rank(size), every=1, window=2, part=f"{rank}of{size}", heads=heads if size > 1 else None)
        for step in (1, 2, 3):
            values = {}
            for (layer, site), x in values_of(step, whole, 10).items():
                n = max(1, x.shape[1] // size)
                first = rank * x.shape[1] // size
                values[layer, site] = x[:, first : first + n]
            self.feed(made, step, values=values, layouts=whole)
        made.close()
        return made.path

    def test_together_are_the_bytes_of_one(self):
        self.check_together(lambda size: [layout(layer, HEADS // size, max(1, KV_HEADS // size)) for layer in LAYERS])

    def test_that_keep_the_same_latent_rows(self):
        self.check_together(lambda size: [latent_layout(HEADS // size)])

    def check_together(self, of_rank):
        class Clock(datetime.datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.datetime(2026, 11, 25, 10, tzinfo=tz)

        layouts = of_rank(1)
        with mock.patch.object(recorder.datetime, "datetime", Clock):
            whole = self.recorded(0, 1, layouts, of_rank)
            for size in (2, 4):
                files = [self.recorded(rank, size, layouts, of_rank) for rank in reversed(range(size))]
                out = self.folder / f"{size}.kvstats"
                self.kvcal("merge", *files, "-o", out)
                self.assertEqual(out.read_bytes(), whole.read_bytes(), f"{size} ranks")
                self.assertIn("is missing beside", self.kvcal("merge", files[0], "-o", self.folder / "x", code=2))
                self.assertIn("scales need all ranks", self.kvcal("solve", files[0], "-o", self.folder / "x", code=2))


class Hooks(WithFolder):
    """What the plug-ins put into the servers' layers and steps."""

    def counted(self, made, layer, site):
        return made._n_tokens.get(list(LAYERS).index(layer), {}).get(site, 0)

    def test_of_vllm(self):
        plugin = importlib.import_module("kvcal.vllm_recorder")
        made = self.recorder(every=2)
        calls = []
        layers = {layer: types.SimpleNamespace(
            impl=types.SimpleNamespace(forward=lambda *a, **k: calls.append((a, k)) or "attended"),
            kv_sharing_target_layer_name=layer and "layers.0.self_attn.attn" or None, _q_scale=torch.tensor(4.0)) for layer in LAYERS}
        plugin._hook_cache(made, 0, layers[0])
        plugin._hook_cache(made, 0, layers[2])  # reads the cache of layer 0
        q, k, v = torch.ones(5, HEADS, WIDTH), torch.ones(5, KV_HEADS, WIDTH), torch.ones(5, KV_HEADS, WIDTH)
        with made.step(torch.arange(3)):
            for layer in LAYERS:
                self.assertEqual(layers[layer].impl.forward(layers[layer], q.to(torch.float8_e4m3fn), k, v, "cache", output=1), "attended")
        self.assertEqual([self.counted(made, 0, site) for site in ("key", "value", "query")], [3, 3, 6])
        self.assertEqual(made._tables[0]["query"].codes.view(HEADS, -1)[0].nonzero().tolist(), [[0x4080]], "times the query's scale")
        self.assertEqual([k for _, k in calls], [{"output": 1}] * 2)
        with made.step(torch.arange(3)):
            layers[0].impl.forward(layers[0], q, k, v)
        self.assertEqual(self.counted(made, 0, "key"), 3, "the second step is not recorded")
        self.assertEqual(plugin._positions(types.SimpleNamespace(positions=torch.arange(9)), 4).tolist(), [0, 1, 2, 3])
        buffers = types.SimpleNamespace(positions=torch.arange(9))
        self.assertEqual(len(plugin._positions(types.SimpleNamespace(input_buffers=buffers), 2)), 2)
        self.assertIsNone(plugin._positions(types.SimpleNamespace(positions=torch.arange(9)), 0))

    def test_of_vllms_latent_attention(self):
        plugin = importlib.import_module("kvcal.vllm_recorder")
        made = self.recorder([latent_layout()], every=1)
        latent, rope, nope = WIDTH - 8, 8, 3
        module = types.SimpleNamespace(forward_impl=lambda *a, **k: (a, k), qk_nope_head_dim=nope,
                                       W_UK_T=torch.randn(HEADS, nope, latent, dtype=torch.bfloat16))
        plugin._hook_row(made, 0, module)
        q, k, r = (torch.randn(5, *shape, dtype=torch.bfloat16) for shape in ((HEADS, nope + rope), (latent,), (1, rope)))
        with made.step(torch.arange(3)):
            self.assertEqual(module.forward_impl(q, k, r, "cache", output=1)[1], {"output": 1})
        self.assertEqual([self.counted(made, 0, site) for site in ("latent", "rope", "query")], [3, 3, 3])
        for head in range(HEADS):
            row = torch.cat([q[:3, head, :nope] @ module.W_UK_T[head], q[:3, head, nope:]], 1)
            expected = torch.bincount((row.view(torch.int16) & 0x7FFF).flatten().long(), minlength=kvstats.CODES)
            self.assertTrue(torch.equal(made._tables[0]["query"].codes.view(HEADS, -1)[head].long(), expected))

    def test_of_sglang(self):
        plugin = importlib.import_module("kv_cache_scales.sglang")
        made = self.recorder(every=2)
        self.addCleanup(plugin.RECORDER.clear)
        plugin.RECORDER[:] = [made]
        module = types.SimpleNamespace(forward=lambda *_: "attended", tp_q_head_num=HEADS, tp_k_head_num=KV_HEADS,
                                       tp_v_head_num=KV_HEADS, qk_head_dim=WIDTH, v_head_dim=WIDTH)
        plugin._hook_cache(made, 2, module)
        q, k = torch.ones(4, HEADS * WIDTH), torch.ones(4, KV_HEADS * WIDTH)
        modes = types.SimpleNamespace(is_idle=lambda: False), types.SimpleNamespace(is_idle=lambda: True)
        replayed = []

        def step(runner, batch):
            replayed.append(plugin._around_graph(lambda: True))
            return module.forward(q, k, k, batch), module.forward(q, None, None, batch)

        def run(mode, draft=False):
            batch = types.SimpleNamespace(forward_mode=mode, positions=torch.arange(4))
            return plugin._around_step(step, types.SimpleNamespace(is_draft_worker=draft), batch)

        run(modes[1]), run(modes[0], draft=True)
        self.assertEqual(made._n_tokens, {})
        self.assertEqual(run(modes[0]), ("attended", "attended"))
        self.assertEqual([self.counted(made, 2, site) for site in ("key", "value", "query")], [4, 4, 8])
        run(modes[0])
        self.assertEqual(self.counted(made, 2, "key"), 4)
        self.assertEqual(replayed, [True, True, False, True], "the recorded step alone replays no graph")


class Trouble(WithFolder):
    def say(self, call):
        with self.assertLogs("kvcal.recorder", logging.WARNING) as said:
            call()
        for line in said.output:
            self.assertNotIn("\n", line)
        return said.output

    def test_a_disk_that_is_full_for_a_while(self):
        made = self.recorder(every=1, window=1)
        write = kvstats.write

        def full(path, *_, **__):
            raise OSError(28, "No space left on device")

        kvstats.write = full
        self.addCleanup(setattr, kvstats, "write", write)

        def feed():
            for step in (1, 2):
                self.feed(made, step)
                made._thread.join()

        said = self.say(feed)
        self.assertEqual(len(said), 1, "once")
        self.assertIn("cannot be written: No space left on device", said[0])
        self.assertEqual(list(self.folder.iterdir()), [])
        kvstats.write = write
        self.feed(made, 3)
        made.close()
        self.assertEqual(json.loads(self.kvcal("stats", made.path, "--json"))["layers"][0]["key"]["tokens"], 21)

    def test_a_failure_ends_the_recording_alone(self):
        made = self.recorder(every=1)

        def feed():
            with made.step(torch.arange(3)):
                made.add(0, key=torch.zeros(3, 1, 1))

        self.assertIn("recording ends", self.say(feed)[0])
        self.feed(made, 1)
        made.close()
        self.assertFalse(made.due)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_refusals(self):
        like = self.folder / "like.kvstats"
        layouts = [layout(layer) for layer in LAYERS]
        text = json.dumps({"__metadata__": {"kvcal": json.dumps(record(layouts))}}).encode()
        like.write_bytes(len(text).to_bytes(8, "little") + text)
        whole = {layer: recorder.Heads(HEADS, KV_HEADS, WIDTH, WIDTH) for layer in LAYERS}
        cpu = recorder.Place(torch.device("cpu"))

        def start(given=None, heads=whole, fingerprint=DIGEST, place=cpu):
            given = {"to": str(self.folder / "x.kvstats"), "like": str(like), **(given or {})}
            return recorder.start(given, heads, lambda *_: fingerprint, place)

        def refused(pattern, *arguments, **named):
            with self.assertRaisesRegex(recorder.RecorderError, pattern) as caught:
                start(*arguments, **named)
            self.assertNotIn("\n", str(caught.exception))

        self.assertEqual(start().path.name, "x.kvstats")
        refused("unknown option 'evry', known are to, like, every, window", {"evry": 1})
        refused("'every' is 0, expected a number", {"every": 0})
        refused("'to' is None, expected a path", {"to": None})
        refused("cannot be read: No such file", {"like": str(self.folder / "none")})
        refused("no statistics file to take the model from", {"like": str(SOURCE / "README.md")})
        refused("not a folder that can be written to", {"to": str(self.folder / "none" / "x")})
        refused("is of another model: its weights have the fingerprint 0123", fingerprint="f" * 64)
        refused("has layer 2, which keeps no KV cache", heads={0: whole[0]})
        refused("has no layer 5, which keeps a KV cache", heads={**whole, 5: whole[0]})
        refused("layer 0: the server has Heads.n_heads=2", heads={**whole, 0: recorder.Heads(2, 2, WIDTH, WIDTH)})
        with self.assertRaisesRegex(recorder.RecorderError, "the options are 'x', expected to, like"):
            recorder.start("x", whole, lambda *_: DIGEST, cpu)
        half = {layer: recorder.Heads(HEADS // 2, KV_HEADS // 2, WIDTH, WIDTH) for layer in LAYERS}
        part = start(heads=half, place=recorder.Place(torch.device("cpu"), 1, 2, "dp3"))
        self.assertEqual(part.path.name, "x.dp3.rank1of2.kvstats")


if __name__ == "__main__":
    unittest.main()
