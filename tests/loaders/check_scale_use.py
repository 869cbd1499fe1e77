"""check_scale_use.py KVCAL SOURCES [RESULTS] [-v]: whether a checkpoint's scales are applied, by the servers' own code and by 'kvcal doctor'.

SOURCES has folders vllm-0.33.0 and sglang-0.5.23 with what their wheels unpack to (run.sh links the installed packages); needs PyTorch and
Triton, no GPU. The servers' functions settle the cache's type, choose the method for the layer, load the scales, handle them after
loading, write rows into a cache and read them back. Triton's kernels run in its interpreter; compiled ones are stand-ins that do with their
arguments what the README says of each. Whether a name in a file reaches the layer is check_vllm.py's and check_sglang.py's to say.

What a run does is one of: 'applied' (divided when written, multiplied when read), 'unused' (neither), 'garbage' (one of the two) and
'stops'; RESULTS gets it, for scales that are alike and not 1.0. Of doctor, F13 and C22 are what it finds of garbage, B04 of a stop; the fact
'scales are applied' says the rest.
"""

import json
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path

from check_cache_types import DECLARED
from one_step import WIDTH
from one_step_sglang import Sglang
from one_step_vllm import Vllm

SCALES = {"none": None, "1.0": (1.0, 1.0), "other": (0.03, 0.02), "other, equal": (0.03, 0.03)}


MODELS = {False: {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": WIDTH},
          True: {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_attention_heads": 16, "kv_lora_rank": 512,
                 "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}}


def checkpoint(folder, latent, declared, scales):
    config = MODELS[latent] | {"num_hidden_layers": 1, "torch_dtype": "bfloat16", "hidden_size": 64, "vocab_size": 32, "intermediate_size": 64}
    Path(folder, "config.json").write_text(json.dumps(config | ({"quantization_config": declared} if declared else {})))
    tensors = {"model.norm.weight": 1.0}
    for name, value in zip(("k_scale", "v_scale"), scales or ()):
        tensors[f"model.layers.0.self_attn.{name}"] = value
    header = {name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(tensors)}
    text = json.dumps(header).encode()
    Path(folder, "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + struct.pack(f"<{len(tensors)}f", *tensors.values()))


def told(kvcal, folder, server, version, command):
    out = subprocess.run([kvcal, "doctor", folder, "--server", f"{server}@{version}", "--command", command, "--json"], stdout=subprocess.PIPE, check=False)
    said = json.loads(out.stdout)
    facts = {fact["name"]: fact["value"] for fact in said["facts"]}
    return facts, {finding["id"] for finding in said["findings"]} | {note["id"] for note in said["notes"]}


def differs(truth, is_plain, facts, ids):
    """What doctor says that the run does not do, in words; "" where they agree, None where doctor says that it does not know."""
    fact = facts["scales are applied"]
    blamed = ids & {"F13", "C22"}
    if truth == "stops":
        return "" if ids & {"B04"} else None if is_plain and fact is None else "no word of the stop"
    if truth == "garbage" and "W01" in ids:
        return "says that the scales cannot be what is wrong"
    if truth == "garbage":
        return f"says that scales are applied {fact}" if fact not in (None, "when read alone") else "" if blamed | ids & {"C05"} else None if is_plain and fact is None else "garbage is not found"
    if blamed or fact == "when read alone":
        return f"{sorted(blamed)} of a run that is sound"
    if ids & {"C18", "F12"} and truth == "applied":
        return "says that scales are not used"
    return None if is_plain and fact is None else ""


def record(path, found):
    """A line for each backend, type of the cache and outcome, with the declarations that have it, by their place in the list."""
    rows = [json.dumps(dict(zip(("server", "model", "backend", "cache", "use"), key)) | {"declared": names}, separators=(",", ":"))
            for key, names in sorted(found.items())]
    declared = ",\n".join("  " + json.dumps(value) for value in DECLARED.values())
    Path(path).write_text('{\n "declared": [\n' + declared + '\n ],\n "results": [\n' + ",\n".join(rows) + "\n ]\n}\n")


def main(kvcal, sources, results=None):
    counts, found = Counter(), {}
    for root in sorted(p for p in Path(sources).iterdir() if p.name in ("vllm-0.33.0", "sglang-0.5.23")):
        name, version = root.name.split("-", 1)
        server = {"vllm": Vllm, "sglang": Sglang}[name](root)
        for latent, (words, declared), (label, scales) in product((False, True), DECLARED.items(), SCALES.items()):
            with tempfile.TemporaryDirectory() as folder:
                checkpoint(folder, latent, declared, scales)
                for flag, backend in product(server.FLAGS, server.BACKENDS[latent]):
                    kind = server.kind(flag, declared)
                    truth = server.does(declared, kind, latent, backend, scales)
                    if truth is None:
                        counts[f"{name}: refused by the backend"] += 1
                        continue
                    is_plain = not any(part in kind for part in ("fp8", "float8", "fp4", "int8"))
                    said = told(kvcal, folder, name, version, server.LINE + (f" --kv-cache-dtype {flag}" if flag else "") + f" --attention-backend {backend}")
                    wrong = differs(truth, is_plain, *said)
                    counts[f"{name}: " + ("not known" if wrong is None else "DIFFERS" if wrong else "agrees")] += 1
                    counts[f"{name}, run: {truth}"] += 1
                    names = found.setdefault((f"{name} {version}", "MLA" if latent else "dense", backend, kind, truth), [])
                    if label == "other, equal" and (place := list(DECLARED).index(words)) not in names:
                        names.append(place)
                    if wrong or (wrong is None and "-v" in sys.argv):
                        print(f"{root.name}, {'MLA' if latent else 'dense'}, {backend}, {flag or 'no option'} ({kind}), {words}, scales {label}: {truth}; "
                              f"kvcal: {wrong or 'not known'}")
    print(", ".join(f"{key} {n}" for key, n in sorted(counts.items())))
    if results:
        record(results, {key: names for key, names in found.items() if names})
    return any("DIFFERS" in key for key in counts) or not counts


if __name__ == "__main__":
    sys.exit(main(*(a for a in sys.argv[1:] if a != "-v")))
