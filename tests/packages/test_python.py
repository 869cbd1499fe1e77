"""kvcal.calibrate, evaluate and inspect, in the package as the wheel has it; and the Python that documents show."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing
import unittest
import weakref
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KVCAL = os.environ.get("KVCAL", str(SOURCE / "build/release/kvcal"))
MODEL, CHATS = SOURCE / "datasets/demo/stressed", SOURCE / "datasets/demo/prompts.jsonl"
LINES = CHATS.read_text().splitlines(keepends=True)[:8]
RECORDS = [json.loads(line) for line in LINES]
SCALARS = {"integer": int, "number": float, "string": str, "boolean": bool}

SCRATCH = tempfile.TemporaryDirectory()
unittest.addModuleCleanup(SCRATCH.cleanup)
PACKAGE = pathlib.Path(SCRATCH.name, "kvcal")
(PACKAGE / "bin").mkdir(parents=True)
for module in SOURCE.glob("apps/python/kvcal/*.py"):
    (PACKAGE / module.name).symlink_to(module)
(PACKAGE / "kv_cache_scales").symlink_to(SOURCE / "apps/plugins/kv_cache_scales")
(PACKAGE / "_version.py").write_text('__version__ = "0"\n')
(PACKAGE / "bin/kvcal").symlink_to(KVCAL)
sys.path.insert(0, SCRATCH.name)
import kvcal  # noqa: E402
from kvcal import calibrator, results  # noqa: E402


def run(*arguments):
    return subprocess.run([KVCAL, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_of(*arguments):
    return "; ".join(re.findall("^kvcal: (?:error: )?(.*)$", run(*arguments).stderr, re.M))


class InFolder(unittest.TestCase):
    """An empty one; what is temporary has to be gone in the end."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        os.mkdir("tmp")
        self.enter(mock.patch.object(tempfile, "tempdir", os.path.abspath("tmp")))
        self.shown = self.enter(contextlib.redirect_stderr(io.StringIO()))

    def enter(self, context):
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def tearDown(self):
        self.assertEqual(os.listdir("tmp"), [])

    def refused(self, error, call, *args, **options):
        with self.assertRaises(error) as caught:
            call(*args, **options)
        self.assertIs(type(caught.exception), error)
        self.assertNotIn("\n", str(caught.exception))
        return caught.exception


class Verbs(InFolder):
    def test_calibrate(self):
        scales = kvcal.calibrate(MODEL, prompts=CHATS, max_prompts=8)
        self.assertEqual(os.listdir(), ["tmp"])
        self.assertIn("needed: scale 1.0 would change", self.shown.getvalue())
        run("calibrate", MODEL, "-p", CHATS, "--max-prompts", 8, "-q", "-o", "a.json")
        written = pathlib.Path("a.json").read_bytes()
        self.assertEqual((scales.to_json(), scales.to_dict()), (written, json.loads(written)))
        self.assertEqual((scales.layers[0].index, scales.layers[0].key.scale), (3, 4.0))
        self.assertRaises(dataclasses.FrozenInstanceError, setattr, scales.layers[0].key, "scale", 1.0)
        records = (json.loads(line) for line in CHATS.read_text().splitlines())
        self.assertEqual(kvcal.calibrate(MODEL, prompts=records, max_prompts=8, out="b.json", quiet=True), scales)
        self.assertEqual(pathlib.Path("b.json").read_bytes(), written)
        same = {"prompts": CHATS, "max_prompts": 8, "out": "b.json"}
        self.assertIn("b.json", str(self.refused(kvcal.Error, kvcal.calibrate, MODEL, **same)))
        self.assertEqual(kvcal.calibrate(MODEL, check=True, **same), scales)
        stale = self.refused(kvcal.Finding, kvcal.calibrate, MODEL, policy="absmax", check=True, **same)
        self.assertEqual((str(stale), stale.exit_code), ("b.json is stale; changed: --policy", 1))

    def test_evaluate(self):
        scales = kvcal.calibrate(MODEL, prompts=RECORDS, quiet=True)
        pathlib.Path("s.json").write_bytes(scales.to_json())
        pathlib.Path("p.jsonl").write_text("".join(LINES))
        made = kvcal.evaluate(MODEL, prompts="p.jsonl", scales=scales, formats=["int8", "fp8_e5m2"], out="e.json")
        self.assertEqual(made.to_dict(), json.loads(pathlib.Path("e.json").read_text()))
        self.assertEqual([v.name for v in made.variants[2:]], ["file", "swapped", "int8", "fp8_e5m2"])
        self.assertNotIn(tempfile.gettempdir(), self.shown.getvalue())  # "next:" names no file that is gone
        for same in ("s.json", [pathlib.Path("s.json")], kvcal.load_scales("s.json")):
            other = kvcal.evaluate(MODEL, prompts=RECORDS, scales=same, formats="int8,fp8_e5m2", quiet=True)
            self.assertEqual(other.to_json(), made.to_json())
        mean = made.conclusion.variants["file"].kl.value
        for error, code, limits in ((kvcal.Finding, 1, {"max_kl": mean, "min_agreement": 1}), (kvcal.Undecided, 3, {"max_kl": mean})):
            found = self.refused(error, kvcal.evaluate, MODEL, prompts=RECORDS, scales=scales, quiet=True, **limits)
            self.assertEqual((found.exit_code, found.evaluation.model), (code, made.model))
            words = [f"--{name.replace('_', '-')}={limit}" for name, limit in limits.items()]
            said = line_of("evaluate", MODEL, "-p", "p.jsonl", "--scales", "s.json", "-q", "-o", f"{code}.json", *words)
            self.assertEqual(str(found), said)

    def test_inspect(self):
        for name in ("qwen3", "deepseek_v2", "phi3_longrope", "gemma3n"):
            found = kvcal.inspect(SOURCE / "tests/arch/golden" / name)
            self.assertEqual(found.to_json().decode(), run("inspect", SOURCE / "tests/arch/golden" / name, "--json").stdout)
            for made in (found, *found.layers):
                self.assertLessEqual(set(made.to_dict()), {field.name for field in dataclasses.fields(made)})
        pathlib.Path("config.json").write_text('{"architectures": ["FooForCausalLM"]}')
        found = kvcal.inspect(".")
        self.assertEqual((found.supported, found.reason), (False, found.to_dict()["reason"]))
        self.assertEqual(str(self.refused(kvcal.Error, kvcal.inspect, "nowhere")), line_of("inspect", "nowhere"))

    def test_what_is_refused(self):
        for verb, name in ((kvcal.calibrate, "polcy"), (kvcal.evaluate, "max_kk"), (kvcal.evaluate, "options")):
            said = line_of(verb.__name__, MODEL, "--" + name.replace("_", "-"))
            self.assertEqual(str(self.refused(kvcal.Error, verb, MODEL, **{name: 1})), said)
        self.assertIn("'true'", str(self.refused(kvcal.Error, kvcal.calibrate, MODEL, policy=True)))
        self.refused(TypeError, kvcal.calibrate, MODEL, dry_run=True)
        self.refused(TypeError, kvcal.calibrate, MODEL, prompts=RECORDS[0])
        self.refused(TypeError, kvcal.calibrate, MODEL, prompts=[1])
        self.refused(ValueError, kvcal.calibrate, MODEL, prompts=["p.jsonl"])  # a text, and looks like a file
        self.assertIn("input:2: ", str(self.refused(kvcal.Error, kvcal.calibrate, MODEL, prompts=["text", {"id": 1}])))
        kvcal.calibrate(MODEL, prompts=["text", RECORDS[0]["messages"]], quiet=True)


class Content(bytearray):
    """Tells whether it is gone."""


class Tensor:
    """What numpy has, as far as it is used. Contents are held one at a time."""

    taken = []

    def __init__(self, dtype, shape, content):
        self.dtype, self.shape, self.content, self.nbytes = dtype, shape, content, len(content)

    def tobytes(self):
        assert not any(earlier() for earlier in self.taken)
        content = Content(self.content)
        self.taken.append(weakref.ref(content))
        return content


class Refits(InFolder):
    PROMPTS = [{"id": str(n), "input_ids": [(7 * i + n) % 90 + 1 for i in range(n)]} for n in (3, 40, 65)]

    def changed(self, model, name, to):
        """That tensor in a copy of the model, its first 2 values swapped with the last ones, and the copy."""
        shutil.copytree(model, to)
        os.chmod(f"{to}/model.safetensors", 0o644)
        places = calibrator._places(f"{to}/model.safetensors")
        dtype, shape, begin, end = places[name]
        content = bytearray(pathlib.Path(to, "model.safetensors").read_bytes())
        content[begin:begin + 8], content[end - 8:end] = content[end - 8:end], content[begin:begin + 8]
        pathlib.Path(to, "model.safetensors").write_bytes(content)
        return Tensor({"BF16": "bfloat16", "F32": "float32"}[dtype], shape, bytes(content[begin:end]))

    MODEL, NAME = SOURCE / "tests/arch/golden/qwen3", "model.layers.0.self_attn.k_proj.weight"

    def tensor(self, path, name):
        dtype, shape, begin, end = calibrator._places(path)[name]
        return Tensor("bfloat16", shape, pathlib.Path(path).read_bytes()[begin:end])

    def file(self, header, n_bytes=0):
        text = (header if isinstance(header, str) else json.dumps(header)).encode()
        return len(text).to_bytes(8, "little") + text + bytes(n_bytes)

    def folder(self, to, *shards):
        """The model with its tensors dealt out to these files, and an index where they are several."""
        os.makedirs(os.path.join(to, os.path.dirname(shards[0])))
        shutil.copy(self.MODEL / "config.json", to)
        of, source = {}, self.MODEL / "model.safetensors"
        for i, shard in enumerate(shards):
            header, content = {}, b""
            for name in sorted(calibrator._places(source))[i::len(shards)]:
                begin, of[name], tensor = len(content), shard, self.tensor(source, name)
                content += tensor.content
                header[name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [begin, len(content)]}
            pathlib.Path(to, shard).write_bytes(self.file(header) + content)
        if len(shards) > 1:
            pathlib.Path(to, "w.safetensors.index.json").write_text(json.dumps({"weight_map": of}))
        return of

    def fresh(self, model):
        return kvcal.calibrate(model, prompts=self.PROMPTS, quiet=True).to_json()

    def test_have_the_bytes_of_a_fresh_run(self):
        # Layers of one kind, latent rows, a head of its own, layers that share a cache, recurrent ones.
        for name, end_of_kept in (("qwen3", None), ("deepseek_v2", None), ("llama", None), ("gemma3n", 0), ("qwen3_next", None)):
            model = SOURCE / "tests/arch/golden" / name
            tensors = sorted(calibrator._places(model / "model.safetensors"))
            layers = sorted({int(found[1]) for t in tensors if (found := re.search(r"layers\.(\d+)\.", t))})
            weight = re.compile(rf"(?<!\w)layers\.{layers[-1]}\..*(norm|proj).*weight$")
            last = next(t for t in tensors if weight.search(t))
            first = next(t for t in tensors if re.search(r"embed_tokens\.weight$", t))
            with self.subTest(name), kvcal.Calibrator(model, prompts=self.PROMPTS) as c:
                before = c.calibrate()
                self.assertEqual((before.to_json(), c.layers_kept, c.drift), (self.fresh(model), 0, None))
                c.refit({last: self.changed(model, last, "last-" + name)})
                self.assertEqual(c.calibrate().to_json(), self.fresh("last-" + name))
                self.assertEqual(c.layers_kept, layers[-1] if end_of_kept is None else c.layers_kept)
                self.changed("last-" + name, first, "all-" + name)
                c.refit("all-" + name)
                self.assertEqual((c.calibrate().to_json(), c.layers_kept), (self.fresh("all-" + name), 0))
                c.refit(str(model / "model.safetensors"))
                after = c.calibrate()
                self.assertEqual(after.to_json(), before.to_json())

    def test_drift_is_that_of_diff(self):
        with kvcal.Calibrator(SOURCE / "datasets/demo/natural", prompts=RECORDS) as c:
            pathlib.Path("a.json").write_bytes(c.calibrate().to_json())
            c.refit(MODEL)
            pathlib.Path("b.json").write_bytes(c.calibrate().to_json())
            said = json.loads(run("diff", "a.json", "b.json", "--json").stdout)
            self.assertEqual(c.drift.to_dict(), {**said, "a": "before", "b": "after"})
            self.assertEqual((c.drift.within, c.drift.sites[0].scale), (False, [1.0, 4.0]))
            again = c.calibrate()
            self.assertEqual((c.drift.within, c.layers_kept), (True, 8))
            self.assertEqual(again.to_json(), pathlib.Path("b.json").read_bytes())

    def test_what_is_refused(self):
        name, model = self.NAME, self.MODEL
        good = self.tensor(model / "model.safetensors", name)
        shape = good.shape
        for word in ("out", "check", "refits", "shard"):
            self.refused(TypeError, kvcal.Calibrator, model, **{word: "1"})
        with kvcal.Calibrator(model, prompts=self.PROMPTS, quiet=True) as c:
            self.assertIn("no tensor 'x'", str(self.refused(ValueError, c.refit, {name: good, "x": good})))
            self.assertIn("is F32", str(self.refused(ValueError, c.refit, {name: Tensor("float32", shape, good.content)})))
            self.assertIn("[1]", str(self.refused(ValueError, c.refit, {name: Tensor("bfloat16", [1], b"12")})))
            self.assertIn("4606 bytes", str(self.refused(ValueError, c.refit, {name: Tensor("bfloat16", shape, good.content[2:])})))
            self.assertIn("not known", str(self.refused(ValueError, c.refit, {name: [1.0]})))
            os.mkdir("new\nline")
            self.assertIn("line break", str(self.refused(ValueError, c.refit, "new\nline")))
            header = {"dtype": "BF16", "shape": shape, "data_offsets": [0, 4608]}
            for case, content in {"huge": b"\xff" * 8, "short": b"abc", "list": b"\2" + bytes(7) + b"[]", "deep": self.file("[" * 99999),
                                  "cut": self.file({name: header}, 2000), "none": self.file({name: {"dtype": "BF16"}}),
                                  "part": self.file({name: {**header, "data_offsets": [0.0, 4608.0]}}, 4608),
                                  "more": self.file({name: {**header, "data_offsets": [0, 5000]}}, 5000)}.items():
                with self.subTest(case):
                    pathlib.Path("bad.safetensors").write_bytes(content)
                    self.refused(ValueError, c.refit, "bad.safetensors")
            before = c.calibrate()
            os.mkdir("empty")
            c.refit("empty")
            self.assertIn("config.json", str(self.refused(kvcal.Error, c.calibrate)))
            c.refit(model)
            self.assertEqual((c.calibrate(), c.layers_kept), (before, 0))  # by a new process
            c.refit({name: good})
            self.assertEqual((c.calibrate(), c.layers_kept), (before, 3))


    def test_go_into_the_files_that_are_read(self):
        new = self.changed(self.MODEL, self.NAME, "new")
        fresh = self.fresh("new")
        strays = ["adapter_model.safetensors", "optimizer.safetensors", "zz.safetensors"]
        for case, n, *shards in (("one", 3, "model"), ("other", 1, "z"), ("two", 3, "w/a", "b")):
            of = self.folder(case, *(shard + ".safetensors" for shard in shards))
            for stray in strays[:n]:
                shutil.copy(self.MODEL / "model.safetensors", os.path.join(case, stray))
            before = {path: path.read_bytes() for path in pathlib.Path(case).rglob("*.*")}
            with self.subTest(case), kvcal.Calibrator(f"{case}/config.json", prompts=self.PROMPTS) as c:
                c.calibrate()
                c.refit({self.NAME: new})
                self.assertEqual(c.calibrate().to_json(), fresh)
                self.assertEqual(before, {path: path.read_bytes() for path in before})
        for index in ({"weight_map": {**of, "x": "zz.safetensors"}}, {"weight_map": {"x": "../one/model.safetensors"}}, []):
            pathlib.Path("two/w.safetensors.index.json").write_text(json.dumps(index))
            with kvcal.Calibrator("two", prompts=self.PROMPTS) as c:
                self.refused(ValueError, c.refit, {self.NAME: new})

    def test_after_a_full_disk(self):
        of = self.folder("two", "a.safetensors", "b.safetensors")
        same = {shard: {n: self.tensor(os.path.join("two", shard), n)} for n, shard in of.items()}
        half = lambda source, to: pathlib.Path(to).write_bytes(pathlib.Path(source).read_bytes()[:9000]) and 1 / 0  # noqa: E731
        with kvcal.Calibrator("two", prompts=self.PROMPTS) as c:
            before = c.calibrate()
            c.refit(same["a.safetensors"])
            with mock.patch.object(shutil, "copyfile", half):
                self.refused(ZeroDivisionError, c.refit, same["b.safetensors"])
                c.refit(same["a.safetensors"])  # needs no copy again
            self.assertEqual([path for path in pathlib.Path("tmp").rglob("*") if path.suffix == ".new"], [])
            for _ in range(2):
                self.assertEqual(c.calibrate(), before)
                c.refit(same["b.safetensors"])

    def test_a_state_dict(self):
        path = SOURCE / "tests/arch/golden/gemma/model.safetensors"
        same = {name: self.tensor(path, name) for name in calibrator._places(path)}
        same["lm_head.weight"] = same["model.embed_tokens.weight"]  # tied: the checkpoint has none
        with kvcal.Calibrator(path.parent, prompts=self.PROMPTS) as c:
            before = c.calibrate()
            with mock.patch.object(Tensor, "taken", []):
                self.refused(ValueError, c.refit, {**same, "x": same["model.norm.weight"]})
                self.assertEqual(Tensor.taken, [])
            c.refit(same)
            self.assertEqual(c.calibrate(), before)


    def test_the_process(self):
        pathlib.Path("p.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in self.PROMPTS))
        pathlib.Path("keep.kvstats").write_text("of another run")
        options = {"prompts": "p.jsonl", "stats": "keep.kvstats", "scratch": "tmp"}
        with kvcal.Calibrator(self.MODEL, **options) as c:
            self.assertIn("keep.kvstats", str(self.refused(kvcal.Error, c.calibrate)))
        with kvcal.Calibrator(self.MODEL, force=True, **options) as c:
            before = c.calibrate()
            self.assertEqual(self.shown.getvalue().count("warning: the model predicts these prompts no better"), 1)
            self.assertNotEqual(os.getsid(c._child.pid), os.getsid(0))
            here, same = os.getcwd(), self.tensor(self.MODEL / "model.safetensors", self.NAME)
            os.chdir("/")
            for end in (signal.SIGINT, signal.SIGKILL):
                c._child.send_signal(end)
                c._child.wait()
                c.refit({self.NAME: same})
                self.assertEqual((c.calibrate(), c.layers_kept), (before, 0))
            c._child.kill()
            c._child.wait()
            with mock.patch.object(c._child, "poll", lambda: None):
                self.assertIn("SIGKILL", str(self.refused(kvcal.Error, c.calibrate)))
            self.assertEqual(c.calibrate(), before)
            os.chdir(here)
            fork, began = os.fork(), time.monotonic()
            if fork == 0:
                time.sleep(9)
                os._exit(0)
            c.close()
            self.assertLess(time.monotonic() - began, 8)
            os.kill(fork, signal.SIGKILL)
            os.waitpid(fork, 0)

    def test_models_that_are_no_folders(self):
        self.folder("hub/models--org--m/snapshots/abc", "model.safetensors")
        same = self.tensor(self.MODEL / "model.safetensors", self.NAME)
        fresh = self.fresh(self.MODEL)
        with mock.patch.dict(os.environ, HF_HUB_CACHE=os.path.abspath("hub")):
            for name in ("org/m", "hub/models--org--m"):
                with self.subTest(name), kvcal.Calibrator(name, prompts=self.PROMPTS) as c:
                    pathlib.Path(c._options["out"]).touch()  # as an interrupted call leaves it
                    self.assertEqual(c.calibrate().to_json(), fresh)
                    self.refused(ValueError, c.refit, {self.NAME: same})
                    c.refit("hub/models--org--m/snapshots/abc")
                    c.refit({self.NAME: same})
                    self.assertEqual(c.calibrate().to_json(), fresh)


class OtherPrograms(InFolder):
    def setUp(self):
        super().setUp()
        self.enter(mock.patch.object(kvcal, "program", lambda: pathlib.Path("tool").absolute()))

    def write(self, script):
        pathlib.Path("tool").write_text("#!/bin/sh\n" + script)
        os.chmod("tool", 0o755)

    def said(self):
        return str(self.refused(kvcal.Error, kvcal.calibrate, MODEL, prompts=["text"]))

    def test_none_and_one_that_dies(self):
        self.assertIn("tool': cannot be started: No such file", self.said())
        self.write("kill -9 $$")
        self.assertIn("ended by SIGKILL", self.said())

    def test_interrupted(self):
        self.write("trap 'echo >ended; exit 130' INT\necho >started\nsleep 60 & wait; kill $!")

        def interrupt():
            while not os.path.exists("started"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        self.refused(KeyboardInterrupt, kvcal.evaluate, MODEL, prompts=["text"])
        self.assertTrue(os.path.exists("ended"))

    def test_progress(self):
        event = {"event": "progress", "layer": 2, "n_layers": 8, "done": 0.25, "seconds_left": None}
        self.write(f"echo '{json.dumps(event)}' >&2\necho text >&2\necho 'kvcal: error: why' >&2\nexit 2")
        self.assertEqual((self.said(), self.shown.getvalue()), ("why", "text\n"))
        self.shown.isatty = lambda: True
        self.said()
        self.assertRegex(self.shown.getvalue(), "\rlayer 2 of 8, 25% *\r\r *\rtext\n\r *\r$")


class Schemas(unittest.TestCase):
    """What they describe are attributes of its type, Optional where it may be missing or null."""

    def resolved(self, node):
        made = {**node, "properties": {}, "required": []}
        for part in node.get("allOf", [node] if "$ref" in node else []):
            part = self.resolved(self.root["definitions"][part["$ref"].rsplit("/", 1)[1]])
            made = {**part, **made, "properties": part["properties"], "required": part["required"]}
        made["properties"] = {**made["properties"], **node.get("properties", {})}
        return {**made, "required": made["required"] + node.get("required", [])}

    def check(self, hint, node, where):
        """Whether it may be null."""
        if "anyOf" in node:
            return self.check(hint, node["anyOf"][0], where) or True
        node, kind, inner = self.resolved(node), typing.get_origin(hint), typing.get_args(hint)
        types = [node["type"]] if isinstance(node.get("type"), str) else node.get("type", [])
        if kind is typing.Union:
            self.check(inner[0], node, where)
        elif kind in (list, dict):
            self.check(inner[-1], node.get("items" if kind is list else "additionalProperties") or {}, where)
        elif dataclasses.is_dataclass(hint):
            self.collect(hint, node)
        elif hint is not typing.Any and types:
            self.assertIs(SCALARS[types[0]], hint, where)
        return "null" in types

    def collect(self, record, node):
        hints, members = typing.get_type_hints(record), {}
        for name in set(node["properties"]) - {"$schema"}:
            where = f"{record.__name__}.{name}"
            self.assertIn(name, hints, where)
            members[name] = not self.check(hints[name], node["properties"][name], where) and name in node["required"]
        if members:
            self.found.setdefault(record, []).append(members)

    def test_attributes(self):
        self.found = {}
        for name, record in (("kv-cache-scales", results.Scales), ("evaluation", results.Evaluation), ("output-diff", kvcal.Difference)):
            self.root = json.loads((SOURCE / f"schemas/{name}.v1.schema.json").read_text())
            self.collect(record, self.resolved(self.root))
        for record, found in self.found.items():
            for name, hint in typing.get_type_hints(record).items():
                is_always = all(members.get(name, False) for members in found)
                self.assertEqual(is_always, type(None) not in typing.get_args(hint), f"{record.__name__}.{name}")


class Documents(InFolder):
    def test_their_python(self):
        os.symlink(MODEL, "model")
        os.symlink(CHATS, "chats.jsonl")
        os.symlink(SOURCE / "datasets/demo/natural", "step-200")
        block = re.compile(r"^```python\n(import kvcal\n.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)
        for document, n_blocks in (("install", 1), ("torch", 2)):
            blocks = block.findall((SOURCE / f"docs/{document}.md").read_text())
            self.assertEqual(len(blocks), n_blocks)
            for code, expected in blocks:
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    exec(compile(code, document, "exec"), {})
                self.assertEqual(expected or printed.getvalue(), printed.getvalue())
            os.remove("kv-cache-scales.json")


if __name__ == "__main__":
    unittest.main()
