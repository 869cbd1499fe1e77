"""check_sglang.py FOLDER [--expect FILE] [--kv-cache-dtype fp8_e4m3] [-v]: the scales that SGLang would use, by its own code.

Exit: 0 all are as expected; 1 one differs, is defaulted or was dropped; 2 SGLang refuses the folder; 3 no verdict.
README.md says what is replaced on a machine without a GPU. SGLang has no scale of queries.
"""

import argparse
import glob
import importlib
import importlib.util
import logging
import os
import re
import socket
import sys
import traceback
import types

import verdict

ABOUT = r"scal|params_dict|kv.?cache|not found|not loaded|ignor"
NOT_ABOUT = r"Ignore import error|server_args|ServerArgs"
MODELS = "llama qwen2 qwen3 qwen3_moe qwen3_5 qwen3_next nemotron_h deepseek_v2 gemma3_causal gpt_oss mistral".split()


def reexec():
    """Under SGLang's Python, on its CPU engine."""
    verdict.start_under("sglang", SGLANG_USE_CPU_ENGINE="1", PYTHONWARNINGS="ignore")


def args(words=None):
    parser = argparse.ArgumentParser()
    verdict.add_arguments(parser, "fp8_e4m3")
    return parser.parse_args(words)


def stand_in_for_cpu_ops():
    """Model files name ops of a CPU build of sgl-kernel when they are imported; no loader calls one."""
    import torch

    def placeholder(name):
        def refuse(*_, **__):
            raise NotImplementedError(f"sgl_kernel.{name}: no CPU build of sgl-kernel here")

        refuse.default = refuse
        return refuse

    sources = os.path.join(os.path.dirname(importlib.util.find_spec("sglang").origin), "srt", "**", "*.py")
    for path in glob.glob(sources, recursive=True):
        with open(path, errors="ignore") as file:
            names = set(re.findall(r"torch\.ops\.sgl_kernel\.(\w+)", file.read()))
        for name in sorted(names):
            if not hasattr(torch.ops.sgl_kernel, name):
                setattr(torch.ops.sgl_kernel, name, placeholder(name))


def preload():
    """The server's imports, most of a minute; check() may then run in forked children."""
    import torch

    torch.set_num_threads(1)
    stand_in_for_cpu_ops()
    import sglang.srt.layers.quantization as quantization
    import sglang.srt.model_loader.loader  # noqa: F401
    import sglang.srt.server_args  # noqa: F401

    # ModelOpt and others are refused on a CPU, where nobody would run them; their loading does not care.
    if isinstance(quantization.CPU_QUANTIZATION_METHODS, dict):
        quantization.CPU_QUANTIZATION_METHODS.update(quantization.QUANTIZATION_METHODS)
    else:
        quantization.CPU_QUANTIZATION_METHODS = list(quantization.QUANTIZATION_METHODS)
    torch.cuda.get_device_capability = lambda *_, **__: (9, 0)  # compressed-tensors asks
    import sglang.srt.models.registry  # noqa: F401

    for model in MODELS:
        importlib.import_module("sglang.srt.models." + model)


def attempt(function, what, notes):
    """What needs a GPU after loading: its failure is a note."""

    def attempting(*given, **named):
        try:
            return function(*given, **named)
        except Exception as e:
            notes.append(f"{what} skipped: {type(e).__name__}: {str(e)[:160]}")

    return attempting


def forgive_repacking(notes):
    """Of weights, and of latent attention's projections. What handles scales of the cache is never forgiven."""
    from sglang.srt.layers.quantization.kv_cache import BaseKVCacheMethod
    from sglang.srt.model_loader import loader

    class Forgiving:
        def __init__(self, method):
            self.method = method

        def __getattr__(self, name):
            value = getattr(self.method, name)
            if name != "process_weights_after_loading":
                return value
            return attempt(value, f"{type(self.method).__name__}.{name}", notes)

    methods = loader._modules_with_quant_method

    def forgiving(model):
        for module, method in methods(model):
            yield module, method if isinstance(method, BaseKVCacheMethod) else Forgiving(method)

    loader._modules_with_quant_method = forgiving
    try:
        import sglang.srt.models.deepseek_common.deepseek_weight_loader as deepseek
    except ImportError:
        return
    for cls in vars(deepseek).values():
        if isinstance(cls, type) and "post_load_weights" in vars(cls):
            cls.post_load_weights = attempt(cls.post_load_weights, "MLA post_load_weights", notes)


def start_ranks(arguments, model_config):
    """One rank of one."""
    from sglang.srt.distributed.parallel_state import init_distributed_environment, initialize_model_parallel
    from sglang.srt.layers.dp_attention import init_dp_gathered_buffer, initialize_dp_attention

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    init_distributed_environment(world_size=1, rank=0, distributed_init_method=f"tcp://127.0.0.1:{port}", local_rank=0,
                                 backend="gloo")
    initialize_model_parallel()
    initialize_dp_attention(arguments)
    init_dp_gathered_buffer(model_config)


def server_arguments(options):
    if os.environ.get("KVCAL_CHECK_PLUGINS"):
        from sglang.srt.plugins import load_plugins

        load_plugins()
    from sglang.srt.runtime_context import SpawnRanks, publish
    from sglang.srt.server_args import ServerArgs

    # A cache of prefixes would ask hybrid models for snapshots on a GPU.
    arguments = ServerArgs(model_path=options.folder, device="cpu", kv_cache_dtype=options.kv_cache_dtype,
                           skip_tokenizer_init=True, mem_fraction_static=0.1, disable_radix_cache=True)
    publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
    from sglang.srt.layers.moe import initialize_moe_config

    initialize_moe_config()
    return arguments


def load(model_config):
    from sglang.srt.configs.device_config import DeviceConfig
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.model_executor import model_runner
    from sglang.srt.model_loader.loader import get_model_loader

    load_config = LoadConfig(load_format="auto")
    if hasattr(model_runner, "adjust_config_with_unaligned_cpu_tp"):  # what ModelRunner does first on a CPU
        model_config = model_runner.adjust_config_with_unaligned_cpu_tp(model_config, load_config, 1)
    loader = get_model_loader(load_config, model_config)
    return loader.load_model(model_config=model_config, device_config=DeviceConfig("cpu", 0))


def load_draft(model_config):
    """The plug-in hears of it as its hook behind the runner's loading would."""
    draft = load(model_config)
    if plugin := sys.modules.get("kv_cache_scales.sglang"):
        plugin._after_load(types.SimpleNamespace(model=draft), is_draft_worker=True, model_config=model_config)
    load_side_file(draft)
    return draft


def load_side_file(model):
    """Without --quantization-param-path nothing; the plug-in gives its scales here."""
    from sglang.srt.model_executor.model_runner_components.load_model_utils import load_kv_cache_scales
    from sglang.srt.runtime_context import get_model

    load_kv_cache_scales(model=model, kv_cache_dtype=get_model().kv_cache_dtype)


def cache_dtype(model, model_config):
    from sglang.srt.mem_cache.kv_cache_dtype import configure_kv_cache_dtype
    from sglang.srt.runtime_context import get_model

    _, dtype = configure_kv_cache_dtype(
        server_args_kv_cache_dtype=get_model().kv_cache_dtype, model=model, model_dtype=model_config.dtype,
        is_draft_worker=False, is_dflash=False, speculative_draft_attention_backend="",
    )
    name = str(dtype).replace("torch.", "")
    return {"float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2"}.get(name, name)


def scales_in_use(model, dtype, traps):
    """{module's name: its scales}. Latent attention's way for prefill over the same layer is left out: nothing fills it."""
    from sglang.srt.layers.radix_attention import RadixAttention

    layers = {}
    for name, module in model.named_modules():
        if not isinstance(module, RadixAttention) or name.endswith(".attn_mha"):
            continue
        layer = {"kv_cache_dtype": dtype, "backend": "-", "method": type(module.quant_method).__name__}
        for site in "kv":
            scale, twin = getattr(module, f"{site}_scale"), getattr(module, f"{site}_scale_float", None)
            layer[site], layer[site + "_float"] = [1.0 if scale is None else float(scale)], twin
            if twin is None and layer[site] != [1.0]:  # some backends read the float, and none means no scale to them
                traps.append(f"{name}.{site}: {site}_scale={layer[site][0]:.9g} is a bare {type(scale).__name__} and "
                             f"{site}_scale_float is None: write and read paths disagree")
        layers[name] = layer
    return layers


class Recorder(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        try:
            self.records.append((record.levelname, record.getMessage()))
        except Exception as e:
            self.records.append((record.levelname, f"{record.msg} (cannot be formatted: {e})"))


def check(options):
    """Leaves the process with the verdict."""
    import sglang

    recorder, traps = Recorder(), []
    result = {"server": f"sglang {sglang.__version__}", "layers": {}, "notes": [], "error": None,
              "tensors": verdict.scale_tensors(options.folder)}
    logging.getLogger("sglang").addHandler(recorder)
    logging.getLogger("sglang").setLevel(logging.DEBUG)
    stage = "server args"
    with verdict.Silence(options.verbose):
        try:
            arguments = server_arguments(options)
            stage = "model config"
            from sglang.srt.configs.model_config import ModelConfig

            model_config = ModelConfig.from_server_args(arguments)
            stage = "distributed init"
            start_ranks(arguments, model_config)
            forgive_repacking(result["notes"])
            stage = "model construction / load_weights / process_weights_after_loading"
            model = load(model_config)
            quant_config = getattr(model, "quant_config", None)
            result["quant_config"] = type(quant_config).__name__ if quant_config else None
            stage = "load_kv_cache_scales"
            load_side_file(model)
            stage = "kv cache dtype"
            result["kv_cache_dtype"] = cache_dtype(model, model_config)
            stage = "read back"
            result["layers"] = scales_in_use(model, result["kv_cache_dtype"], traps)
            if "KVCAL_CHECK_DRAFT" in os.environ:
                stage = "the model that drafts"
                draft = load_draft(ModelConfig.from_server_args(arguments, model_path=options.folder, is_draft_model=True))
                for i, (name, layer) in enumerate(scales_in_use(draft, result["kv_cache_dtype"], traps).items()):
                    result["layers"][verdict.draft_name(i, name)] = layer
        except BaseException as e:
            result["error"] = stage, type(e).__name__, str(e)[:3000]
            if options.verbose:
                traceback.print_exc()
    result["log"] = verdict.told(recorder.records, ABOUT, NOT_ABOUT)
    status = verdict.report(options, result)
    for trap in traps:
        print(f"  TRAP {trap}")
        status = max(status, verdict.DIFFERS)
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    chosen = args()
    reexec()
    preload()
    check(chosen)
