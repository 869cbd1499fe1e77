"""check_cache_types.py KVCAL SOURCES: the cache's type of 'kvcal doctor --facts', held against what the servers' own code decides.

SOURCES has folders vllm-VERSION and sglang-VERSION with what their wheels unpack to. Of vLLM the functions that settle "auto" and
the statement of its attention that looks at the declared scheme are executed, of SGLang the function (or method) that settles the
type and the property that tells what a compressed-tensors checkpoint declares. What kvcal says to be not known is counted.
"""

import ast
import json
import subprocess
import sys
import tempfile
import types
from collections import Counter
from pathlib import Path

from own_functions import functions

FLAGS = ["", "auto", "fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16"]
SCHEME = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": False}
DECLARED = {
    "nothing": None,
    "weights alone": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "compressed-tensors, no cache": {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": None},
    "compressed-tensors": {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": SCHEME},
    "compressed-tensors, per head": {"quant_method": "compressed-tensors", "config_groups": {"g": {}},
                                     "kv_cache_scheme": {**SCHEME, "strategy": "attn_head"}},
    "compressed-tensors, dynamic": {"quant_method": "compressed-tensors", "config_groups": {},
                                    "kv_cache_scheme": {**SCHEME, "dynamic": True}},
    "modelopt": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    "modelopt, lower case": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "fp8"},
    "modelopt, no cache": {"quant_method": "modelopt", "quant_algo": "FP8"},
    "modelopt, NVFP4": {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"},
    "modelopt, mixed": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8_K_NVFP4_V"},
}


class Silent:
    def __getattr__(self, _):
        return lambda *_args, **_kwargs: None


class Anything:
    """Stands for names of modules: every attribute is its own dotted name."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, inner):
        return Anything(f"{self.name}.{inner}") if inner[0].isupper() else f"{self.name}.{inner}"


def statement_on_scheme(path):
    """The one in Attention.__init__ that turns a declared scheme into a type."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.If) and "kv_cache_scheme" in ast.unparse(node.test) and "kv_cache_dtype = 'fp8'" in ast.unparse(node):
            return compile(ast.unparse(node), str(path), "exec")
    return None


def vllm(root, flag, declared):
    path = root / "vllm/utils/torch_utils.py"
    source = path.read_text() if path.exists() else ""
    asked = flag or "auto"
    if "def resolve_kv_cache_dtype_string" in source:
        names = {"logger": Silent()}
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and "MODELOPT_TO_VLLM" in ast.unparse(node):
                exec(ast.unparse(node), names)
        made = functions(path, ["get_kv_cache_quant_algo_string"], names)
        names.update(made)
        resolve = functions(path, ["resolve_kv_cache_dtype_string"], names)["resolve_kv_cache_dtype_string"]
        config = types.SimpleNamespace(quantization_config=declared) if declared else types.SimpleNamespace()
        asked = resolve(asked, types.SimpleNamespace(hf_config=config))
    attention = root / "vllm/model_executor/layers/attention/attention.py"
    attention = attention if attention.exists() else root / "vllm/attention/layer.py"
    rule = statement_on_scheme(attention)
    scheme = declared.get("kv_cache_scheme") if declared and declared["quant_method"] == "compressed-tensors" else None
    scope = {"kv_cache_dtype": asked, "kv_cache_scheme": scheme, "cache_config": None, "calculate_kv_scales": False, "getattr": getattr,
             "quant_config": types.SimpleNamespace(kv_cache_scheme=scheme)}
    if rule is not None:
        exec(rule, scope)
    return scope["kv_cache_dtype"]


def declared_to_sglang(root, declared):
    if not declared:
        return None
    if declared["quant_method"] != "compressed-tensors":
        return declared.get("kv_cache_quant_algo")
    path = root / "sglang/srt/layers/quantization/compressed_tensors/compressed_tensors.py"
    if "def kv_cache_quant_algo" not in path.read_text():
        return None
    method = functions(path, ["CompressedTensorsKVCacheMethod.is_supported_scheme"], {})
    supported = method["CompressedTensorsKVCacheMethod.is_supported_scheme"]
    names = {"CompressedTensorsKVCacheMethod": types.SimpleNamespace(is_supported_scheme=supported)}
    algorithm = functions(path, ["CompressedTensorsConfig.kv_cache_quant_algo"], names)["CompressedTensorsConfig.kv_cache_quant_algo"]
    return algorithm(types.SimpleNamespace(kv_cache_scheme=declared["kv_cache_scheme"]))


def sglang(root, flag, declared):
    asked = flag or "auto"
    model = types.SimpleNamespace(quant_config=types.SimpleNamespace(kv_cache_quant_algo=declared_to_sglang(root, declared)))
    names = {"torch": Anything("torch"), "logger": Silent(), "_is_hip": False, "fp8_dtype": "fp8", "log_info_on_rank0": lambda *_: None,
             "TORCH_DTYPE_TO_KV_CACHE_STR": Counter(), "hasattr": hasattr,
             "current_platform": types.SimpleNamespace(is_cpu=lambda: False)}
    alone = root / "sglang/srt/mem_cache/kv_cache_dtype.py"
    if alone.exists():
        settle = functions(alone, ["configure_kv_cache_dtype"], names)["configure_kv_cache_dtype"]
        return settle(server_args_kv_cache_dtype=asked, model=model, model_dtype="auto", is_draft_worker=False, is_dflash=False,
                      speculative_draft_attention_backend="")[1]
    path = root / "sglang/srt/model_executor/model_runner.py"
    settle = functions(path, ["ModelRunner.configure_kv_cache_dtype"], names)["ModelRunner.configure_kv_cache_dtype"]
    runner = types.SimpleNamespace(server_args=types.SimpleNamespace(kv_cache_dtype=asked), model=model, dtype="auto")
    settle(runner)
    return runner.kv_cache_dtype


def is_quantized(name):
    return any(part in str(name) for part in ("fp8", "float8", "nvfp4", "float4"))


def told(kvcal, server, version, flag, config):
    start = "vllm serve m" if server == "vllm" else "python3 -m sglang.launch_server --model-path m"
    command = start + (f" --kv-cache-dtype {flag}" if flag else "")
    out = subprocess.run([kvcal, "doctor", config, "--server", f"{server}@{version}", "--command", command, "--json"],
                         stdout=subprocess.PIPE, check=False)
    value = next(fact["value"] for fact in json.loads(out.stdout)["facts"] if fact["name"] == "cache")
    return None if value is None else "(quantized)" in value


def main(kvcal, sources):
    counts = Counter()
    roots = sorted(p for p in Path(sources).iterdir() if p.name.startswith(("vllm-", "sglang-")))
    for root in roots:
        server, version = root.name.split("-", 1)
        for name, declared in DECLARED.items():
            config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16"}
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "config.json")
                path.write_text(json.dumps(config | ({"quantization_config": declared} if declared else {})))
                for flag in FLAGS:
                    try:
                        truth = (vllm if server == "vllm" else sglang)(root, flag, declared)
                    except (FileNotFoundError, ValueError, SystemExit) as why:
                        counts[f"{server}: " + ("refused" if isinstance(why, ValueError) else "source not there")] += 1
                        continue
                    said = told(kvcal, server, version, flag, str(path))
                    verdict = "not known" if said is None else "agrees" if said == is_quantized(truth) else "DIFFERS"
                    counts[f"{server}: {verdict}"] += 1
                    if verdict == "DIFFERS" or (said is None and "-v" in sys.argv):
                        print(f"{root.name}, {flag or 'no option'}, {name}: {truth}; kvcal: {verdict}")
    print(", ".join(f"{key} {n}" for key, n in sorted(counts.items())))
    return any("DIFFERS" in key for key in counts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
