"""SGLang plug-in: an FP8 KV cache with the scales of a kv-cache-scales.json.

KV_CACHE_SCALES=/path/kv-cache-scales.json python -m sglang.launch_server --model-path MODEL --kv-cache-dtype fp8_e4m3

SGLang logs and swallows every Exception of a plug-in, so refusals leave by SystemExit. A plug-in that is not installed, or
kept out by SGLANG_PLUGINS, shows only by its missing log line.
"""

import json
import logging
import os

from .scale_file import (
    LOG_LINE, Cache, ScaleError, check_all_used, check_architecture, check_geometry, check_weights, departing, layer_for,
    local_folder, mtp_pairs, read_scale_file, weights_fingerprint,
)

log = logging.getLogger("sglang.kv_cache_scales")

LOADING = "sglang.srt.model_executor.model_runner_components.load_model_utils"
DRAFTS = {}  # by the id of a draft model: where its checkpoint is


def register():
    """Entry point; runs in every process. Without KV_CACHE_SCALES and KV_CACHE_RECORD it does nothing."""
    if os.environ.get("KV_CACHE_RECORD"):
        _register_recording()
    if not os.environ.get("KV_CACHE_SCALES"):
        return
    try:
        from sglang.srt.model_executor.model_runner_components import load_model_utils
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType

        for name in ("load_kv_cache_scales", "load_model_with_memory_saver"):
            if not callable(getattr(load_model_utils, name, None)):
                raise ImportError(f"{LOADING} has no {name}")
    except Exception as error:
        raise SystemExit(f"kv-cache-scales: cannot work with this SGLang: {type(error).__name__}: {error}") from None
    HookRegistry.register(f"{LOADING}.load_model_with_memory_saver", _after_load, HookType.AFTER)
    HookRegistry.register(f"{LOADING}.load_kv_cache_scales", _around_scales, HookType.AROUND)


def _after_load(loaded, *_args, is_draft_worker=False, model_config=None, **_kwargs):
    if is_draft_worker:
        DRAFTS[id(loaded.model)] = getattr(model_config, "model_path", None)
    elif getattr(loaded, "startup_weight_load", None) is not None:
        raise SystemExit("kv-cache-scales: weights are loaded after the scales here: switch the overlapped loading off")


def _around_scales(original, *, model, kv_cache_dtype):
    """Called once per model, when its weights are in place and before the cache and the graphs exist."""
    if id(model) in DRAFTS:
        original(model=model, kv_cache_dtype=kv_cache_dtype)
    try:
        (_install_mtp if id(model) in DRAFTS else _install)(model, kv_cache_dtype)
    except Exception as error:  # an Exception of a hook might be taken for a reason to go on without it
        reason = str(error) if isinstance(error, ScaleError) else f"kv-cache-scales: {type(error).__name__}: {error}"
        raise SystemExit(reason) from error


def _install(model, kv_cache_dtype):
    from sglang.srt.runtime_context import get_model, get_parallel, process_model_config

    if kv_cache_dtype != "fp8_e4m3":
        raise ScaleError(f"the KV cache is {kv_cache_dtype}: serve with --kv-cache-dtype fp8_e4m3")
    if get_model().quantization_param_path is not None:
        raise ScaleError("KV_CACHE_SCALES and --quantization-param-path both name scales: leave one out")
    file = read_scale_file(os.environ["KV_CACHE_SCALES"])
    config = process_model_config()
    check_architecture(file, config.hf_config.architectures)
    folder = local_folder(config.model_path, getattr(config, "revision", None), get_model().download_dir)
    weights = check_weights(file, folder, os.environ.get("KV_CACHE_SCALES_ALLOW_OTHER_WEIGHTS") == "1", log)
    used = _set_all(model, file, [(layer_for(file, n, m.layer_id), n, m) for n, m in _caches(model)])
    n_layers = config.num_hidden_layers
    check_all_used(file, used, getattr(model, "start_layer", 0), getattr(model, "end_layer", n_layers), n_layers)
    if get_parallel().tp_rank == 0:
        log.info(LOG_LINE, len(used), file.path, file.sha256[:12], "tensor", weights)
        log.info("kv-cache-scales: layers that would have another scale, 1.0, without it: %s", departing(file, used))


def _install_mtp(model, kv_cache_dtype):
    """Of a draft that is the checkpoint's own MTP layer. Any other draft is left alone, and so is a cache that is not FP8."""
    from sglang.srt.runtime_context import process_model_config

    if kv_cache_dtype == "fp8_e4m3" and DRAFTS[id(model)] == process_model_config().model_path:
        file = read_scale_file(os.environ["KV_CACHE_SCALES"])
        _set_all(model, file, mtp_pairs(file, list(_caches(model)), log))


def _set_all(model, file, pairs):
    """`pairs`: (layer, name, module). Returns the indexes of what was set."""
    from sglang.srt.runtime_context import get_parallel

    factor, used, parallel = _platform_factor(file), set(), get_parallel()
    tp_sizes, device = sorted({parallel.attn_tp_size, parallel.tp_size}), next(model.parameters()).device
    for layer, name, module in pairs:
        if layer.kind == "mla":
            _check_mla(layer)
        heads = module.tp_q_head_num, module.tp_k_head_num
        check_geometry(layer, Cache(name, layer.kind, *heads, module.qk_head_dim, module.v_head_dim), tp_sizes)
        _pin(module, {site: factor * layer.scale[site] for site in "kv"}, device)
        used.add(layer.index)
        log.debug("kv-cache-scales: %s k %r v %r", name, module.k_scale_float, module.v_scale_float)
    return used


def _platform_factor(file):
    """gfx942 stores e4m3fnuz, in which every number is half as large: SGLang doubles the scales of checkpoints there."""
    from sglang.kernels.ops.quantization.fp8_kernel import is_fp8_fnuz

    fnuz = is_fp8_fnuz()
    if file.dtype == "fp8_e4m3" or (fnuz and file.dtype == "fp8_e4m3fnuz"):
        return 2.0 if fnuz and file.dtype == "fp8_e4m3" else 1.0
    raise ScaleError(f"{file.path} holds scales for {file.dtype}, this device's FP8 is e4m3{'fnuz' if fnuz else ''}")


def _caches(model):
    from sglang.srt.layers.radix_attention import AttentionType, RadixAttention

    modules = list(model.named_modules())
    for owner, module in model.named_modules():  # the Transformers fallback keeps its attention in a plain dict
        fallback = vars(module).get("attention_instances")
        if isinstance(fallback, dict):
            modules += [(f"{owner}.attention_instances.{key}".lstrip("."), m) for key, m in fallback.items()]
    for name, module in modules:
        stores = isinstance(module, RadixAttention) and module.attn_type != AttentionType.ENCODER_ONLY
        if not stores or name.endswith(".attn_mha"):  # prefill without the latent row; _check_mla left it unused
            continue
        if module.is_cross_attention:
            raise ScaleError(f"{name}: a cache of cross attention, of which no scale file knows")
        yield name, module


def _check_mla(layer):
    """A latent row is stored undivided and multiplied when it is read. Only Triton's absorbed path divides; its prefill
    does too where deterministic inference keeps it from the other path."""
    from sglang.srt.runtime_context import attention_backends, get_exec

    if layer.scale["k"] == 1.0:
        return
    backends = set(attention_backends())
    if backends != {"triton"} or not get_exec().deterministic.enable_deterministic_inference:
        raise ScaleError(
            f"layer {layer.index} is MLA with scale {layer.scale['k']:.6g}: SGLang writes such a cache undivided with "
            f"{' and '.join(sorted(map(str, backends)))}. --attention-backend triton --enable-deterministic-inference "
            "applies it; or serve with --kv-cache-dtype auto, or with vLLM"
        )


def _pin(module, scales, device):
    """Sets the scales, now and after every reload of weights, which takes those of the checkpoint."""

    def set_scales(*_args):
        _set(module, scales, device)

    if module.quant_method is not None:  # one object per layer
        module.quant_method.process_weights_after_loading = set_scales
    set_scales()


def _set(module, scales, device):
    import torch

    for site, scale in scales.items():
        present = getattr(module, f"{site}_scale")
        if isinstance(present, torch.nn.Parameter):
            present.data.fill_(scale)  # in place: captured graphs keep the pointer
        else:
            tensor = torch.tensor(scale, dtype=torch.float32, device=device)
            setattr(module, f"{site}_scale", torch.nn.Parameter(tensor, requires_grad=False))
        setattr(module, f"{site}_scale_float", scale)


# ---- Recording: statistics of live traffic, counted by the wheel's kvcal/recorder.py ----
RUNNERS = "sglang.srt.model_executor"
GRAPHS = ("runner.decode_cuda_graph_runner.DecodeCudaGraphRunner", "runner.prefill_cuda_graph_runner.PrefillCudaGraphRunner")
RECORDER = []  # at most one: of this process's model


def _register_recording():
    """Whatever is wrong with it is said in one line, and the server goes on without it."""
    try:
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    except ImportError as error:
        return log.error("kv-cache-record: nothing is recorded: cannot work with this SGLang: %s", error)
    HookRegistry.register(f"{LOADING}.load_model_with_memory_saver", _start_recording, HookType.AFTER)
    HookRegistry.register(f"{RUNNERS}.model_runner.ModelRunner.forward", _around_step, HookType.AROUND)
    for graphs in GRAPHS:
        HookRegistry.register(f"{RUNNERS}.{graphs}.can_run_graph", _around_graph, HookType.AROUND)


def _start_recording(loaded, *_args, is_draft_worker=False, **_kwargs):
    if is_draft_worker:
        return
    try:
        import kvcal.recorder as recording
    except ImportError as error:
        return log.error("kv-cache-record: nothing is recorded: it needs the wheel kvcal (%s)", error)
    try:
        recorder, modules = _start_recorder(recording, loaded.model)
    except Exception as error:
        reason = str(error) if isinstance(error, (recording.RecorderError, ScaleError)) else repr(error)
        return log.error("kv-cache-record: nothing is recorded: %s", reason)
    for layer, module in modules:
        _hook_cache(recorder, layer, module)
    RECORDER[:] = [recorder]
    log.info("kv-cache-record: %s", recorder)
    import atexit
    import multiprocessing.util

    atexit.register(recorder.close)  # of processes that multiprocessing began, the next
    multiprocessing.util.Finalize(recorder, recorder.close, exitpriority=10)


def _start_recorder(recording, model):
    from sglang.srt.runtime_context import get_model, get_parallel, process_model_config

    config, parallel = process_model_config(), get_parallel()
    if parallel.pp_size > 1 or parallel.attn_dp_size > 1:
        raise recording.RecorderError("pipeline stages and data-parallel attention have parts that nothing puts together")
    try:
        given = json.loads(os.environ["KV_CACHE_RECORD"])
    except ValueError as error:
        raise recording.RecorderError(f"KV_CACHE_RECORD is no JSON: {error}") from None
    modules, heads = [], {}
    for name, module in _caches(model):
        if name.endswith((".attn_mqa", ".attn_mha")):
            raise recording.RecorderError(f"{name}: MLA: only keys and values of a layer's heads are recorded")
        modules.append((module.layer_id, module))
        widths = module.qk_head_dim, module.v_head_dim
        heads[module.layer_id] = recording.Heads(module.tp_q_head_num, module.tp_k_head_num, *widths)
    folder = local_folder(config.model_path, getattr(config, "revision", None), get_model().download_dir)
    place = recording.Place(next(model.parameters()).device, parallel.tp_rank, parallel.tp_size)
    return recording.start(given, heads, lambda *names: weights_fingerprint(folder, *names), place), modules


def _hook_cache(recorder, layer, module):
    """Where a layer's keys, values and queries come together."""
    forward = module.forward

    def recording_forward(q, k, v, *args, **kwargs):
        if recorder.active:
            sites = {"query": q.view(-1, module.tp_q_head_num, module.qk_head_dim)}
            if k is not None:  # else another layer has written them
                sites["key"] = k.view(-1, module.tp_k_head_num, module.qk_head_dim)
                sites["value"] = v.view(-1, module.tp_v_head_num, module.v_head_dim)
            recorder.add(layer, **sites)
        return forward(q, k, v, *args, **kwargs)

    module.forward = recording_forward


def _around_step(original, runner, forward_batch, *args, **kwargs):
    if not RECORDER or runner.is_draft_worker:
        return original(runner, forward_batch, *args, **kwargs)
    positions = None if forward_batch.forward_mode.is_idle() else forward_batch.positions
    with RECORDER[0].step(positions):
        return original(runner, forward_batch, *args, **kwargs)


def _around_graph(original, *args, **kwargs):
    """Steps that are recorded replay no graph, in which no Python runs."""
    return not (RECORDER and RECORDER[0].active) and original(*args, **kwargs)
