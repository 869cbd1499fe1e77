"""Writes tests/unit/data/doctor/lines.tsv: log lines as the servers' own sources print them.

    for p in vllm==0.33.0 sglang==0.5.23 vllm==0.26.0 vllm==0.19.1 vllm==0.10.2 vllm==0.6.6.post1 sglang==0.5.8 \
        nvidia-modelopt==0.47.0 flashinfer-python==0.7.2.post1; do pip download --no-deps $p; done
    python3 server_lines.py *.whl > ../../unit/data/doctor/lines.tsv      # a Python that has torch

What Python, argparse and torch print by themselves, and the plug-ins of this tree, is made by running them.

A message is addressed by file, function and its number among the messages of that function (calls of a logger,
warnings, raised exceptions, texts appended to a list of reasons), or where a function has many by a word or two of it.
Its whole text comes from the syntax tree, and the arguments below are filled in, in order: the lines do not come from
the patterns that are tested with them. The ids say which entries of the catalogue must recognise the line ("-": none),
from reading what the code does.
"""
import argparse
import ast
import contextlib
import io
import pathlib
import re
import sys
import traceback
import zipfile

V, S = "vllm-0.33.0", "sglang-0.5.23"
Q = "model_executor/layers/quantization/"
CT = Q + "compressed_tensors/compressed_tensors.py"
NAME, MAPPED = "model.layers.0.self_attn.k_scale", "layers.0.attn.k_scale"
WEIGHT_UTILS = "srt/model_loader/weight_utils.py"
MLA = "v1/attention/backends/mla/"

# wheel, file in the package, function, number of the message in it, arguments, ids of the catalogue
LINES = [
    (V, "config/cache.py", "_validate_cache_dtype", 0, ["'int9'", "[...]"], "LG50"),
    (V, "config/cache.py", "_validate_cache_dtype", 1, ["fp8_per_token_head"], "LG1c"),
    (V, "config/cache.py", "_validate_cache_dtype", 2, ["fp8_e4m3"], "LG1"),
    (V, Q + "kv_cache.py", "weight_loader", 0, ["(8,)"], "LG9"),
    (V, Q + "kv_cache.py", "process_weights_after_loading", 0, [], "LG9"),
    (V, Q + "kv_cache.py", "process_weights_after_loading", 1, [], "LG3"),
    (V, Q + "kv_cache.py", "process_weights_after_loading", 2, [], "LG2"),
    (V, Q + "kv_cache.py", "process_weights_after_loading", 3, [], "LG9"),
    (V, Q + "kv_cache.py", "process_weights_after_loading", 4, ["1.0", "1.0"], "LG4"),
    (V, "model_executor/layers/attention/attention.py", "_init_kv_cache_quant", 0, [], "LG10"),
    (V, CT, "validate_kv_cache_scheme", 0, ["4", "float"], "LG40"),
    (V, CT, "validate_kv_cache_scheme", 1, ["(...)", "channel"], "LG40"),
    (V, CT, "validate_kv_cache_scheme", 2, ["None"], "LG40"),
    (V, "model_executor/model_loader/weight_utils.py", "maybe_remap_kv_scale_name", 0, [], "LG11"),
    (V, "model_executor/model_loader/weight_utils.py", "maybe_remap_kv_scale_name", 1, [NAME, MAPPED], "LG12"),
    (V, "model_executor/model_loader/weight_utils.py", "maybe_remap_kv_scale_name", 2, ["mla_attn.mla_attn"], "LG13"),
    (V, "model_executor/model_loader/weight_utils.py", "maybe_remap_kv_scale_name", 3,
     ["k_scale", NAME, MAPPED, "k_scale"], "LG12b"),
    (V, "model_executor/model_loader/weight_utils.py", "filter_duplicate_safetensors_files", 0,
     ["{'kv_scales.safetensors'}"], "LG48"),
    (V, "model_executor/model_loader/__init__.py", "get_model_loader", 0, ["kv_cache_scales"], "LG72"),
    (V, "v1/attention/backend.py", "validate_configuration", "per-head", [], "LG43"),
    (V, MLA + "flashattn_mla.py", "__init__", "FP8", [], "LG25"),
    (V, MLA + "cutlass_mla.py", "forward_mqa", 0, [], "LG47"),
    (V, "v1/attention/backends/cpu_attn.py", "_get_attn_isa", -1, [], "LG27"),
    (V, "config/vllm.py", "validate_nvfp4_kv_cache_with_mla", 0, [], "LG26"),
    (V, Q + "modelopt.py", "from_config", "quant_algo", [], "LG45"),
    (V, Q + "utils/fp8_utils.py", "get_w8a8_block_fp8_configs", -1, ["/x/N=1,K=2.json"], "LG20"),
    (V, "distributed/kv_transfer/kv_connector/v1/nixl/pull_worker.py", "_get_new_notifs", "invalid", ["req-1"], "LG33"),
    (V, "model_executor/models/utils.py", "*", "no module or",
     ["'layers.0.self_attn.k_scale'", "LlamaModel", "", "LlamaModel", "{'norm.weight'}"], "LG38"),
    (V, "model_executor/models/utils.py", "*", "with dtype",
     ["layers.0.self_attn.attn.k_scale", "torch.float32", "torch.bfloat16"], "LG39"),
    (V, "platforms/cuda.py", "*", "No valid", ["cuda", "AttentionSelectorConfig()", "{...}"], "LG28"),
    (V, "platforms/cuda.py", "get_attn_backend_cls", "configuration. Reason: %s",
     ["AttentionBackendEnum.TRITON_MLA", "['kv_cache_dtype not supported']"], "LG82"),
    (V, Q + "modelopt.py", "*", "w1_weight_scale_2", [], "LG22"),
    (V, "v1/attention/backends/triton_attn.py", "*", "fp8e4nv", ["cuda:0", "8.6", "bfloat16"], "LG24"),
    (V, MLA + "triton_mla.py", "*", "fp8e4nv", ["cuda:0", "8.6", "bfloat16"], "LG24"),
    (V, "v1/attention/backend.py", "validate_configuration", "sinks", [], "C09"),
    (V, "v1/attention/backend.py", "validate_configuration", "sliding", [], "-"),
    (V, "model_executor/models/config.py", "verify_and_update_config", "per-layer FA3/FA4", ["[256, 512]"], "LG23"),
    (V, "utils/torch_utils.py", "*", "Unknown kv_cache_quant_algo", ["INT3", "['FP8']"], "LG46"),
    (V, CT, "*", "Skipping CompressedTensors config group", ["LlamaAttention"], "LG49"),
    (V, "utils/deep_gemm.py", "*", "E8M0 enabled", [], "-"),
    (S, "srt/model_executor/model_runner_components/load_model_utils.py", "load_kv_cache_scales", 0, ["/s.json"], "LG52"),
    (S, "srt/model_executor/model_runner_components/load_model_utils.py", "load_kv_cache_scales", 1, ["X"], "LG15"),
    (S, "srt/model_executor/model_runner_components/load_model_utils.py", "load_kv_cache_scales", 2, [], "LG14"),
    (S, WEIGHT_UTILS, "maybe_remap_kv_scale_name", 0, [], "LG11"),
    (S, WEIGHT_UTILS, "maybe_remap_kv_scale_name", 1, [NAME, MAPPED], "LG12"),
    (S, WEIGHT_UTILS, "maybe_remap_kv_scale_name", 2, [".k_scale", NAME, MAPPED, ".k_scale"], "LG12b"),
    (S, WEIGHT_UTILS, "check_is_fp8", 0, ["float16"], "LG53"),
    (S, WEIGHT_UTILS, "check_tp_ranks", 0, ["1", "2"], "LG53"),
    (S, WEIGHT_UTILS, "check_tp_ranks", 1, ["0", "32", "31"], "LG53"),
    (S, WEIGHT_UTILS, "check_tp_ranks", 2, ["1"], "LG53"),
    (S, WEIGHT_UTILS, "check_model_type", 0, ["qwen3", "llama"], "LG57"),
    (S, WEIGHT_UTILS, "kv_cache_scales_loader", 0, ["/s.json"], "-"),
    (S, WEIGHT_UTILS, "kv_cache_scales_loader", 3, ["0"], "LG53"),
    (S, "srt/models/qwen2.py", "*", "params_dict", [NAME], "LG60"),
    (S, "srt/models/qwen2.py", "*", "params_dict", ["model.layers.0.self_attn.q_scale"], "LG60q"),
    (S, "srt/models/qwen2.py", "*", "params_dict", ["model.layers.0.mlp.bias"], "-"),
    (S, "srt/layers/quantization/compressed_tensors/compressed_tensors.py", "*", "kv_cache_scheme",
     ["{'strategy': 'attn_head'}"], "LG61"),
    (S, "srt/layers/attention/trtllm_mla_backend.py", "*", "has k_scale", ["0.5", "torch.bfloat16"], "LG62"),
    (S, "srt/disaggregation/common/conn.py", "*", "cache dtype mismatch", ["auto", "fp8_e4m3"], "LG63"),
    (S, "srt/layers/moe/moe_runner/triton_utils/fused_moe_triton_config.py", "*", "Using default MoE", ["/x.json"], "LG20"),
    ("sglang-0.5.8", "srt/model_executor/model_runner.py", "*", "Using KV cache dtype", ["torch.float8_e4m3fn"], "LG16"),
    ("sglang-0.5.8", "srt/model_executor/model_runner.py", "*", "Using KV cache dtype", ["torch.bfloat16"], "-"),
    ("vllm-0.19.1", "config/cache.py", "_warn_deprecated_calculate_kv_scales", 0, [], "LG6"),
    ("vllm-0.26.0", "config/cache.py", "_warn_deprecated_calculate_kv_scales", 0, [], "LG6"),
    ("vllm-0.19.1", "model_executor/models/config.py", "verify_and_update_config", "hybrid model '", ["Qwen/Qwen3.5-35B-A3B"],
     "LG5"),
    ("vllm-0.26.0", "model_executor/models/config.py", "verify_and_update_config", "hybrid model '", ["Qwen/Qwen3.5-35B-A3B"],
     "LG5"),
    ("vllm-0.6.6.post1", "config.py", "_verify_cache_dtype", 0, [], "LG1"),
    ("vllm-0.6.6.post1", "model_executor/layers/quantization/kv_cache.py", "process_weights_after_loading", -1, [], "LG2"),
    ("vllm-0.10.2", "model_executor/layers/quantization/kv_cache.py", "process_weights_after_loading", 1, [], "LG3"),
    ("vllm-0.19.1", "distributed/kv_transfer/kv_connector/v1/nixl_connector.py", "*", "decode worker(s)",
     ["req-1", "0", "480"], "LG33"),
    ("vllm-0.19.1", "v1/core/kv_cache_utils.py", "unify_hybrid_kv_cache_specs", "failed", [], "LG90"),
    ("vllm-0.19.1", "v1/core/kv_cache_utils.py", "unify_kv_cache_spec_page_size", "divisible", [], "LG89"),
    ("vllm-0.26.0", "v1/core/kv_cache_utils.py", "unify_kv_cache_spec_page_size", "divisible", ["layers.0"], "-"),
    ("vllm-0.10.2", MLA + "triton_mla.py", "*", "FP8", [], "LG25"),
    ("nvidia_modelopt-0.47.0", "torch/export/quant_utils.py", "*", "activations detected", [], "LG17"),
    ("nvidia_modelopt-0.47.0", "torch/export/quant_utils.py", "*", "activation detected", ["0.7"], "LG17"),
    ("flashinfer_python-0.7.2.post1", "jit/core.py", "*", "sm75", ["[]"], "LG19"),
    ("flashinfer_python-0.7.2.post1", "compilation_context.py", "*", "SM 12.1+", [], "LG18"),
    ("flashinfer_python-0.7.2.post1", "compilation_context.py", "*", "SM 120", [], "LG18"),
]
PACKAGES = {"nvidia_modelopt": "modelopt", "flashinfer_python": "flashinfer"}


def template(node):
    """The text of a string expression with %s for what is computed; None where it is not a string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join("%s" if isinstance(v, ast.FormattedValue) else v.value for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        return None if left is None and right is None else (left or "%s") + (right or "%s")
    return None


def messages(function):
    """Texts of log calls, warnings, exceptions, assertions and appended reasons, in the order of the source."""
    found = []
    for node in ast.walk(function):
        text = None
        if isinstance(node, ast.Call) and node.args:
            text = next((t for t in map(template, node.args[:2]) if t), None)  # the logger may come first
            if not re.search(r"info|warn|error|debug|append|Error|Exception|log", ast.unparse(node.func)):
                text = None
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("msg", "message"):
            text = template(node.value)
        elif isinstance(node, ast.Assert) and node.msg is not None:
            text = template(node.msg)
        if text:
            found.append((node.lineno, text))
    return [text for _, text in sorted(set(found))]


def of_file(source, function):
    tree = ast.parse(source)
    if function == "*":
        return messages(tree)
    defs = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == function]
    return [m for d in sorted(defs, key=lambda d: d.lineno) for m in messages(d)]


def fill(text, arguments):
    arguments = list(arguments)
    filled = re.sub(r"%(?:\.\d+)?[sdrf]", lambda m: str(arguments.pop(0)) if arguments else "?", text)
    return " ".join(filled.split())


def refusal(arguments, **option):
    """What argparse prints about these arguments."""
    parser, printed = argparse.ArgumentParser(prog="server"), io.StringIO()
    if option:
        parser.add_argument("--kv-cache-dtype", **option)
    with contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
        parser.parse_args(arguments)
    return printed.getvalue().splitlines()[-1]


def raised(action):
    """The last line of the traceback."""
    try:
        action()
    except Exception as error:
        return traceback.format_exception_only(error)[-1].strip()


def set_scale_of_module():
    import torch
    module = torch.nn.Module()
    module.k_scale = torch.nn.Parameter(torch.tensor(1.0))
    module.k_scale = 0.5


def made_by_running(kv_cache_source):
    """Lines that no server's source has as they are printed."""
    yield "argparse", "unknown option", "LG7", refusal(["--calculate-kv-scales"])
    yield "argparse", "unknown option", "LG7b", refusal(["--quantization-param-path", "s.json"])
    yield "argparse", "unknown option", "F05 LG7b", refusal(["--kv-cache-scales-path", "s.json"])
    yield "argparse", "unknown option", "-", refusal(["--log-requests"])
    yield "argparse", "choices", "LG51", refusal(["--kv-cache-dtype", "fp8"], choices=["auto", "fp8_e4m3"])
    yield "python", "KeyError", "LG36", raised(lambda: {}["layers.41.self_attn.qkv_proj.k_scale"])
    yield "python", "KeyError", "LG36", raised(lambda: {}["model.layers.0.self_attn.q_scale"])
    yield "python", "KeyError", "-", raised(lambda: {}["model.layers.0.self_attn.qkv_proj.weight"])
    yield "python", "AttributeError", "LG59", raised(lambda: (1.0).expand)
    yield "torch", "Module.__setattr__", "LG58", raised(set_scale_of_module)
    yield V, Q + "kv_cache.py", "LG37", next(x.strip() for x in kv_cache_source.splitlines() if "assert layer.k_scale >" in x)
    tree = pathlib.Path(__file__).resolve().parents[3]
    plugins = [(tree / "apps/plugins/kv_cache_scales" / name).read_text() for name in ("scale_file.py", "vllm.py")]
    strings = [n.value for plugin in plugins for n in ast.walk(ast.parse(plugin)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    used = next(s for s in strings if "attention layers use the scales of" in s)
    other = next(s for s in strings if "allow_other_weights" in s and s.startswith("kv-cache-scales:"))
    yield "apps/plugins", "vllm", "LG70", fill(used, ["32", "/s.json", "40989c7d", "tensor", "equal"])
    yield "apps/plugins", "vllm", "LG71", fill(other, ["the weights differ"])


def main(wheels):
    archives = {}
    for wheel in wheels:
        name = "-".join(wheel.rsplit("/", 1)[-1].split("-")[:2])
        archives[name] = zipfile.ZipFile(wheel)
    print("package\tfile\tfunction\tids\tline")
    for package, path, function, number, arguments, ids in LINES:
        top = package.split("-")[0]
        with archives[package].open(f"{PACKAGES.get(top, top)}/{path}") as file:
            found = of_file(file.read(), function)
        # A part of the source's line stands for a number where a function has very many messages.
        try:
            text = found[number] if isinstance(number, int) else next(m for m in found if number in m)
        except (IndexError, StopIteration):
            sys.exit(f"{package} {path} {function}: no message {number!r} in {found[:20]}")
        print(package, path, function, ids, fill(text, arguments), sep="\t")
    with archives[V].open(f"vllm/{Q}kv_cache.py") as file:
        for package, path, ids, text in made_by_running(file.read().decode()):
            print(package, path, "", ids, text, sep="\t")


if __name__ == "__main__":
    main(sys.argv[1:])
