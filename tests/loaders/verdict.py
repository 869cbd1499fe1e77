"""What both checkers share: the scale tensors of a folder, the scales that must be in use, and the verdict in words.

run_cases.py reads what is printed here: the lines that begin with REFUSED, CHECKER LIMIT, BAD, TRAP, log and RESULT.
"""

import json
import math
import os
import re
import struct
import sys

OK, DIFFERS, REFUSED, CHECKER_FAILED = range(4)  # exit statuses

# Names under which servers and tools keep the scales of keys, values and queries.
SCALE = re.compile(
    r"((?<![a-z])(?:[kvq]|kv|prob)_scale|[kvq]_proj\.output_scale|[kv]_cache\.scale|\.q\.scale|prob_output_scale"
    r"|fake_quantizer\.qscale_act)$"
)
# What a server's code says when it wants a real GPU: no verdict on the folder.
WANTS_GPU = ("cudaGetDeviceCount", "stub library", "no CPU build of sgl-kernel", "No CUDA GPUs", "Cannot re-initialize CUDA")


def start_under(server, **environment):
    """Starts this program again under the server's Python, with the stub of libcuda; returns where that has been done."""
    if os.environ.get("KVCAL_CHECKING") == server:
        return
    ref = os.environ.get("REF", os.path.expanduser("~/.cache/kvcal-loaders"))
    python = os.path.join(ref, server, "bin", "python")
    libraries = [os.path.join(ref, "stubs"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    program = os.path.abspath(sys.modules["__main__"].__file__)
    os.execve(python, [python, program] + sys.argv[1:], os.environ | dict(
        KVCAL_CHECKING=server, LD_LIBRARY_PATH=":".join(libraries), HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false") | environment)


def add_arguments(parser, kv_cache_dtype):
    parser.add_argument("folder")
    parser.add_argument("--expect", help='{"layers": {"0": {"k": [0.03], "v": [0.01]}, ...}}; without it every scale '
                        "tensor of the folder must be in use")
    parser.add_argument("--kv-cache-dtype", default=kv_cache_dtype)
    parser.add_argument("-v", "--verbose", action="store_true", help="print the server's own output and tracebacks")


def scale_tensors(folder):
    """{name: {"value": [numbers], "file", "listed"}}; listed: the index, where there is one, has it in this file."""
    from safetensors import safe_open

    index = os.path.join(folder, "model.safetensors.index.json")
    where = None
    if os.path.exists(index):
        with open(index) as file:
            where = json.load(file)["weight_map"]
    found = {}
    for name in sorted(f for f in os.listdir(folder) if f.endswith(".safetensors")):
        with safe_open(os.path.join(folder, name), "pt") as tensors:
            for key in tensors.keys():
                if SCALE.search(key) and "weight_scale" not in key and "input_scale" not in key:
                    value = tensors.get_tensor(key).float().flatten().tolist()
                    found[key] = {"value": value, "file": name, "listed": where is None or where.get(key) == name}
    return found


def sites_of(name):
    """Which scales a tensor of this name is: "k", "v", "q"."""
    if name.endswith("kv_scale"):
        return "kv"
    if "prob" in name.rsplit(".", 1)[-1]:
        return ""
    match = re.search(r"([kvq])_(?:scale|cache\.scale|proj\.output_scale)$|\.(q)\.scale$|([kvq])_fake_quantizer", name)
    return next(filter(None, match.groups())) if match else ""


def layer_of(name):
    """The layer's index as text; drafts' layers, which draft_name() names, count from 0 again and keep their prefix."""
    match = re.search(r"(?:layers|h|blocks)\.(\d+)\.", name)
    return ("mtp." if re.search(r"(^|\.)mtp\.", name) else "") + match[1] if match else name


def draft_name(index, name):
    """What a checker calls a layer of the model that drafts: servers number those each in its own way."""
    return f"mtp.layers.{index}.{name}"


def expected(options, result):
    """{layer: {site: [numbers]}}"""
    layers = {}
    if options.expect:
        with open(options.expect) as file:
            for key, sites in json.load(file)["layers"].items():
                layers[key] = {s: v if isinstance(v, list) else [v] for s, v in sites.items()}
    else:
        for name, tensor in result["tensors"].items():
            for site in sites_of(name):
                layers.setdefault(layer_of(name), {})[site] = tensor["value"]
    return layers


def float32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def bfloat16(x):
    """To nearest even, as a server rounds scales that have the model's dtype."""
    bits = struct.unpack("I", struct.pack("f", x))[0]
    return struct.unpack("f", struct.pack("I", bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000))[0]


def compare(got, want):
    """(what it is, is it wrong)"""
    if len(want) != len(got) and len(want) % len(got) == 0:  # of queries, the largest of the heads that share a key
        n = len(want) // len(got)
        want = [max(want[i * n : (i + 1) * n]) for i in range(len(got))]
    same = len(want) == len(got)
    if same and all(float32(x) == float32(y) for x, y in zip(got, want)):
        good = all(math.isfinite(x) and x > 0 for x in got)
        return ("ok", False) if good else (f"{got}, which is not a positive number", True)
    if same and all(math.isfinite(y) and x == bfloat16(y) for x, y in zip(got, want)):
        return "ok, server rounded it to bf16", False
    if all(x == 1.0 for x in got):
        return f"defaulted to 1.0, expected {want}", True
    return f"{got}, expected {want}", True


def check_layer(name, layer, want, bad):
    """Prints the layer's line and appends what is wrong with it."""
    row = []
    for site in "kvq":
        if site not in layer:
            continue
        got, twin = layer[site], layer.get(site + "_float")
        if site in want:
            words, wrong = compare(got, want[site])
            if wrong:
                bad.append(f"{name}.{site}: {words}")
            elif twin is not None and abs(twin - max(got)) > 1e-6 * max(got):
                bad.append(f"{name}.{site}: its float is {twin}, itself {got}")
        else:
            words = "default" if all(x == 1.0 for x in got) else "not expected"
            if site != "q":  # servers need no scale of queries
                bad.append(f"{name}.{site}: no expected value; server uses {got}")
        row.append(f"{site}={','.join('%.9g' % x for x in got)} [{words}]")
    dtype = str(layer["kv_cache_dtype"])
    if not dtype.startswith(("fp8", "nvfp4")) or "per_token" in dtype:
        bad.append(f"{name}: layer's kv_cache_dtype is {dtype}, scales unused")
    print(f"  {name}: {dtype} {layer['backend']} {layer['method']}  " + "  ".join(row))


def report(options, result):
    """Prints everything and returns the exit status."""
    print(f"{result['server']}  {options.folder}")
    print(f"  quant_config={result.get('quant_config')}  kv_cache_dtype: {options.kv_cache_dtype} -> {result.get('kv_cache_dtype')}")
    for level, message in result["log"]:
        if level in ("WARNING", "ERROR") or "scal" in message.lower() or options.verbose:
            print(f"  log {level}: {message[:300]}")
    for note in sorted(set(result["notes"])):
        print(f"  note: {note}")
    if result["error"]:
        stage, kind, message = result["error"]
        if any(words in message for words in WANTS_GPU):
            print(f"CHECKER LIMIT (needs a GPU) at {stage}: {kind}: {message[:300]}")
            return CHECKER_FAILED
        print(f"REFUSED at {stage}: {kind}: {message[:1200]}")
        return REFUSED
    want, used, bad = expected(options, result), set(), []
    for name, layer in result["layers"].items():
        key = name if name in want else layer_of(name)
        used.add(key)
        check_layer(name, layer, want.get(key, {}), bad)
    bad += [f"expected scales for layer {key} {sorted(want[key])}: no such attention layer in the server's model"
            for key in want if key not in used]
    bad += [f"tensor {name} in {tensor['file']} is not in model.safetensors.index.json's weight_map"
            for name, tensor in result["tensors"].items() if not tensor["listed"]]
    for finding in bad:
        print("  BAD " + finding)
    print(f"RESULT FAIL ({len(bad)})" if bad else "RESULT OK")
    return DIFFERS if bad else OK


class Silence:
    """While it lasts, what the server prints goes nowhere; `verbose` lets it through."""

    def __init__(self, verbose):
        self.verbose = verbose

    def __enter__(self):
        if not self.verbose:
            self.saved = os.dup(1), os.dup(2)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)

    def __exit__(self, *_):
        import sys

        sys.stdout.flush()
        sys.stderr.flush()
        if not self.verbose:
            for to, saved in zip((1, 2), self.saved):
                os.dup2(saved, to)


def told(records, about, but=r"(?!)"):
    """[level, message] of the server's log that speak of `about`, each once; `records` are (level, message)."""
    lines = []
    for level, message in records:
        line = [level, message[:700]]
        if re.search(about, message, re.I) and not re.search(but, message) and level != "DEBUG" and line not in lines:
            lines.append(line)
    return lines
