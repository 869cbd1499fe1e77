"""check_vllm.py FOLDER [--expect FILE] [--kv-cache-dtype fp8] [-v]: the scales that vLLM would use, by its own code.

Exit: 0 all are as expected; 1 one differs, is defaulted or was dropped; 2 vLLM refuses the folder; 3 no verdict.
README.md says what is replaced on a machine without a GPU.
"""

import argparse
import json
import logging
import os
import socket
import sys
import traceback

import verdict

ABOUT = r"scal|_zero_point|kv.?cache|unexpected|not found|attention backend|config group"
NOT_ABOUT = r"rope_scal|scaling_config|Initializing a V1|SchedulerConfig|GPU KV cache|compilation_config|VllmConfig"


def reexec():
    """Under vLLM's Python; without the stub of libcuda its parts do not load."""
    # No visible device: vLLM then keeps Triton, which hybrid models import. No build in the background.
    verdict.start_under(
        "vllm", VLLM_NO_USAGE_STATS="1", VLLM_DO_NOT_TRACK="1", DO_NOT_TRACK="1", VLLM_LOGGING_LEVEL="DEBUG",
        VLLM_PLUGINS=os.environ.get("KVCAL_CHECK_PLUGINS", ""), VLLM_USE_DEEP_GEMM="0",
        VLLM_USE_FLASHINFER_SAMPLER="0", HUMMING_DISABLE_PARALLEL_BUILD="1", CUDA_VISIBLE_DEVICES="",
    )


def args(words=None):
    parser = argparse.ArgumentParser()
    verdict.add_arguments(parser, "fp8")
    return parser.parse_args(words)


def preload():
    """The server's imports, most of a minute; check() may then run in forked children."""
    import fake_gpu
    import torch
    import vllm  # noqa: F401

    torch.set_num_threads(1)
    fake_gpu.install(9, 0)
    import vllm.engine.arg_utils  # noqa: F401
    import vllm.model_executor.model_loader  # noqa: F401
    import vllm.model_executor.models.registry as registry
    from vllm.model_executor.layers.quantization import get_quantization_config

    for method in ("compressed-tensors", "fp8", "modelopt"):
        get_quantization_config(method)
    registry._run_in_subprocess = lambda function: function()  # model classes are looked at here, not in a new Python


def forgive(cls, notes):
    """What repacks weights after loading needs a GPU: its failure is a note."""
    process = cls.process_weights_after_loading

    def attempt(self, *given, **named):
        try:
            return process(self, *given, **named)
        except Exception as e:
            notes.append(f"{cls.__name__}.process_weights_after_loading skipped: {type(e).__name__}: {str(e)[:160]}")

    cls.process_weights_after_loading = attempt


def forgive_repacking(notes):
    """Of weights and of latent attention's projections. What handles scales of the cache is never forgiven."""
    from vllm.model_executor.layers.attention import MLAAttention
    from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
    from vllm.model_executor.layers.quantization.kv_cache import BaseKVCacheMethod
    from vllm.model_executor.model_loader import base_loader, utils

    process = utils.process_weights_after_loading

    def forgiving(model, model_config, target_device):
        methods = [getattr(m, "quant_method", None) for _, m in model.named_modules()]
        weights = {type(m) for m in methods if isinstance(m, QuantizeMethodBase) and not isinstance(m, BaseKVCacheMethod)}
        latent = {type(m) for _, m in model.named_modules() if isinstance(m, MLAAttention)}
        for cls in weights | latent:
            forgive(cls, notes)
        return process(model, model_config, target_device)

    utils.process_weights_after_loading = base_loader.process_weights_after_loading = forgiving


def record_log(records):
    """Every log call: vLLM sets up logging anew while it starts, so that a handler would be lost."""
    call = logging.Logger.callHandlers

    def recording(self, record):
        if self.name.startswith("vllm"):
            try:
                records.append((record.levelname, record.getMessage()))
            except Exception as e:
                records.append((record.levelname, f"{record.msg} (cannot be formatted: {e})"))
        return call(self, record)

    logging.Logger.callHandlers = recording


def engine_config(options):
    from vllm.engine.arg_utils import EngineArgs

    given = dict(model=options.folder, skip_tokenizer_init=True, enforce_eager=True, max_model_len=128,
                 kv_cache_dtype=options.kv_cache_dtype, max_num_batched_tokens=4096, max_num_seqs=4)
    if "KVCAL_CHECK_ADDITIONAL_CONFIG" in os.environ:
        given["additional_config"] = json.loads(os.environ["KVCAL_CHECK_ADDITIONAL_CONFIG"])
    if "KVCAL_CHECK_DRAFT" in os.environ:
        given["speculative_config"] = {"method": "mtp", "num_speculative_tokens": 1}
    if "KVCAL_CHECK_LOAD_FORMAT" in os.environ:
        given["load_format"] = os.environ["KVCAL_CHECK_LOAD_FORMAT"]
    if os.environ.get("KVCAL_CHECK_PLUGINS"):
        from vllm.plugins import load_general_plugins

        load_general_plugins()
    return EngineArgs(**given).create_engine_config()


def start_ranks(config):
    """One rank of one."""
    from vllm.config import set_current_vllm_config
    from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with set_current_vllm_config(config):
        init_distributed_environment(1, 0, f"tcp://127.0.0.1:{port}", 0, backend="gloo")
        ensure_model_parallel_initialized(1, 1)


def scales_in_use(config):
    """{layer's name: its scales}; layers of recurrent state have none."""
    layers = {}
    for name, module in config.compilation_config.static_forward_context.items():
        if not hasattr(module, "_k_scale"):
            continue
        layer = {"kv_cache_dtype": module.kv_cache_dtype, "backend": module.attn_backend.get_name(),
                 "method": type(getattr(module, "quant_method", None)).__name__}
        for site in "kvq":
            layer[site] = getattr(module, f"_{site}_scale").detach().float().flatten().tolist()
            layer[site + "_float"] = getattr(module, f"_{site}_scale_float", None)
        layers[name] = layer
    return layers


def check(options):
    """Leaves the process with the verdict."""
    import vllm

    records = []
    result = {"server": f"vllm {vllm.__version__}", "layers": {}, "notes": [], "error": None,
              "tensors": verdict.scale_tensors(options.folder)}
    record_log(records)
    stage = "engine config"
    with verdict.Silence(options.verbose):
        try:
            config = engine_config(options)
            result["kv_cache_dtype"] = config.cache_config.cache_dtype
            result["quant_config"] = type(config.quant_config).__name__ if config.quant_config else None
            stage = "distributed init"
            start_ranks(config)
            forgive_repacking(result["notes"])
            stage = "model construction / load_weights / process_weights_after_loading"
            from vllm.config import set_current_vllm_config
            from vllm.model_executor.model_loader import get_model_loader

            with set_current_vllm_config(config):
                loader = get_model_loader(config.load_config)
                loader.load_model(vllm_config=config, model_config=config.model_config)
                own = set(config.compilation_config.static_forward_context)
                if config.speculative_config:  # as its proposer of drafts does
                    loader.load_model(vllm_config=config, model_config=config.speculative_config.draft_model_config)
            stage = "read back"
            layers = scales_in_use(config)
            result["layers"] = {name: layer for name, layer in layers.items() if name in own}
            for i, name in enumerate(name for name in layers if name not in own):
                result["layers"][verdict.draft_name(i, name)] = layers[name]
        except BaseException as e:
            result["error"] = stage, type(e).__name__, str(e)[:3000]
            if options.verbose:
                traceback.print_exc()
    result["log"] = verdict.told(records, ABOUT, NOT_ABOUT)
    status = verdict.report(options, result)
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    chosen = args()
    reexec()
    preload()
    check(chosen)
