"""check_records.py KVCAL: what the plug-ins record by the servers' classes, against `kvcal calibrate --stats` of the same tokens.

The servers multiply in another order and round what they pass on elsewhere, so that a magnitude may move by a rounding of bf16 or two:
counts of tokens are equal, largest magnitudes and quantiles of every head differ by at most 2 %.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
TOLERANCE = 0.02
# SGLang's Qwen3 wants an op of a CPU build of sgl-kernel; its Llama leaves out biases that the golden has.
# DeepSeek's experts want kernels: its first layer has none.
CASES = {"qwen2": ("vllm", "sglang"), "qwen3": ("vllm",), "deepseek_v3": ("vllm",)}
FIRST_LAYERS = {"deepseek_v3": 1}


def package(folder):
    """The wheel's package without what its build makes."""
    (folder / "kvcal").mkdir()
    for name in ("kvstats", "recorder", "vllm_recorder"):
        shutil.copy(SOURCE / f"apps/python/kvcal/{name}.py", folder / "kvcal")
    (folder / "kvcal/__init__.py").write_text('__version__ = "0"\n')
    shutil.copytree(SOURCE / "apps/plugins/kv_cache_scales", folder / "kv_cache_scales")
    return folder


def cut(model, n_layers):
    """The checkpoint without the layers behind these."""
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"num_hidden_layers": n_layers}))
    data = (model / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header, kept, body = json.loads(data[8:begin]), {}, b""
    for name, entry in header.items():
        layer = re.search(r"layers\.(\d+)\.", name)
        if name != "__metadata__" and not (layer and int(layer[1]) >= n_layers):
            part = data[begin:][slice(*entry["data_offsets"])]
            kept[name] = entry | {"data_offsets": [len(body), len(body) + len(part)]}
            body += part
    text = json.dumps(kept).encode()
    (model / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)


def shown(kvcal, path):
    return json.loads(subprocess.run([kvcal, "stats", path, "--json"], check=True, capture_output=True, text=True).stdout)


def difference(calibrated, recorded):
    """(largest, where); a different number of tokens is infinite."""
    worst = (0.0, "")
    for a, b in zip(calibrated["layers"], recorded["layers"], strict=True):
        for site in ("latent", "rope", "query") if "latent" in a else ("key", "value", "query"):
            if a[site]["tokens"] != b[site]["tokens"]:
                return float("inf"), f"layer {a['index']} {site}: {b[site]['tokens']} tokens, expected {a[site]['tokens']}"
            for head, (x, y) in enumerate(zip(a[site]["heads"], b[site]["heads"], strict=True)):
                for name, p, q in [("absmax", x["absmax"], y["absmax"])] + [(q, x["quantiles"][q], y["quantiles"][q]) for q in x["quantiles"]]:
                    worst = max(worst, (abs(q / p - 1), f"layer {a['index']} {site} head {head} {name}: {q}, expected {p}"))
    return worst


def main(kvcal):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "path").mkdir()
        path = package(folder / "path")
        for case, servers in CASES.items():
            golden, model = SOURCE / "tests/arch/golden" / case, folder / case
            shutil.copytree(golden, model, ignore=shutil.ignore_patterns("golden.*"))
            if case in FIRST_LAYERS:
                cut(model, FIRST_LAYERS[case])
            sequences = json.loads((golden / "golden.json").read_text())["sequences"]
            prompts, tokens, like = (folder / f"{case}.{name}" for name in ("jsonl", "json", "kvstats"))
            prompts.write_text("".join(json.dumps({"id": str(i), "input_ids": ids}) + "\n" for i, ids in enumerate(sequences)))
            tokens.write_text(json.dumps(sequences))
            subprocess.run([kvcal, "calibrate", model, "--prompts", prompts, "--passes", "1", "-q", "-o", folder / f"{case}.scales",
                            "--stats", like], check=True, stderr=subprocess.DEVNULL)
            for server in servers:
                out = folder / f"{case}.{server}.kvstats"
                run = subprocess.run([sys.executable, HERE / f"check_{server}_record.py", model, like, out, tokens],
                                     env=os.environ | {"PYTHONPATH": str(path)}, capture_output=True, text=True)
                if run.returncode or not out.exists():
                    print(f"{case} {server}: nothing was recorded\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
                    failed += 1
                    continue
                worst, where = difference(shown(kvcal, like), shown(kvcal, out))
                failed += worst > TOLERANCE
                print(f"{case} {server}: {'as calibrated' if worst <= TOLERANCE else 'DIFFERS'}, by at most {100 * worst:.2g} % ({where})")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
