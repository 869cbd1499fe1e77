"""vLLM plug-in: an FP8 KV cache with the scales of a kv-cache-scales.json.

vllm serve MODEL --kv-cache-dtype fp8 --load-format kv_cache_scales --additional-config '{"kv_cache_scales": "/path"}'

Without the plug-in vLLM knows no such load format and does not start; so it neither fails to load in silence nor is it
forgotten. vLLM swallows what goes wrong while a plug-in is imported: nothing but the standard library is, up here.
"""

import dataclasses
import logging
import re
import sys

# weights_fingerprint is what kvcal.vllm_recorder asks of this module.
from .scale_file import (
    LOG_LINE, Cache, ScaleError, check_all_used, check_architecture, check_geometry, check_weights, departing, heads_of_rank,
    largest_per_group, layer_for, layer_index, local_folder, mtp_pairs, read_scale_file, weights_fingerprint,
)

log = logging.getLogger("vllm.kv_cache_scales")

LOAD_FORMAT = "kv_cache_scales"
# MLA backends that write the row divided by _k_scale and multiply when they read it, with vLLM's names of them. Others
# raise at the first token (CUTLASS_MLA), forget the rope part (FLASHINFER_MLA_SPARSE_SM90) or are not known.
MLA_BACKENDS = ("FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA", "TOKENSPEED_MLA", "ROCM_AITER_MLA")


def register():
    """Entry point; runs in the front end, the engine core and every worker, perhaps more than once in each."""
    from vllm.model_executor.model_loader import _LOAD_FORMAT_TO_MODEL_LOADER, register_model_loader
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

    if LOAD_FORMAT in _LOAD_FORMAT_TO_MODEL_LOADER:
        return

    @register_model_loader(LOAD_FORMAT)
    class KvCacheScalesLoader(DefaultModelLoader):
        """Loads as "auto" does, then sets the scales. Draft models come through here too."""

        def __init__(self, load_config):
            super().__init__(dataclasses.replace(load_config, load_format="auto"))

        def load_model(self, vllm_config, model_config, prefix=""):
            model = super().load_model(vllm_config=vllm_config, model_config=model_config, prefix=prefix)
            install = _install_mtp if _is_draft(vllm_config, model_config) else _install
            install(model, vllm_config, model_config)
            return model

    def refuse_scales(load_model):
        def refusing(self, vllm_config, model_config, prefix=""):
            named = "kv_cache_scales" in (vllm_config.additional_config or {})
            if named and not isinstance(self, KvCacheScalesLoader) and not _is_draft(vllm_config, model_config):
                raise ScaleError(f"additional_config names a scale file: serve with --load-format {LOAD_FORMAT}")
            model = load_model(self, vllm_config=vllm_config, model_config=model_config, prefix=prefix)
            if "kv_cache_record" in (vllm_config.additional_config or {}) and not _is_draft(vllm_config, model_config):
                _record(model, vllm_config, model_config)
            return model

        return refusing

    # Another load format would serve at scale 1.0 although the user named a file.
    for loader in {BaseModelLoader, *_LOAD_FORMAT_TO_MODEL_LOADER.values()} - {KvCacheScalesLoader}:
        if "load_model" in vars(loader):
            loader.load_model = refuse_scales(loader.load_model)


def _is_draft(vllm_config, model_config):
    speculative = vllm_config.speculative_config
    draft = speculative is not None and model_config is speculative.draft_model_config
    return draft or model_config is not vllm_config.model_config


def _options(vllm_config):
    """(path of the scale file, allow_other_weights) from --additional-config."""
    given = (vllm_config.additional_config or {}).get("kv_cache_scales")
    options = {"path": given} if isinstance(given, str) else given
    if not isinstance(options, dict) or not isinstance(options.get("path"), str):
        raise ScaleError(
            f"--load-format {LOAD_FORMAT} needs --additional-config "
            '\'{"kv_cache_scales": "/path/kv-cache-scales.json"}\''
        )
    if unknown := sorted(set(options) - {"path", "allow_other_weights"}):
        raise ScaleError(f"additional_config.kv_cache_scales: unknown {unknown}, known are path, allow_other_weights")
    return options["path"], options.get("allow_other_weights") is True


def known_architectures(hf_config):
    """The model's classes, and its text model's, as which some wrappers are served (DeepSeek-VL2)."""
    text = getattr(hf_config, "text_config", None)
    return [*(hf_config.architectures or []), *(getattr(text, "architectures", None) or [])]


def _install(model, vllm_config, model_config):
    path, allow_other_weights = _options(vllm_config)
    file = read_scale_file(path)
    check_architecture(file, known_architectures(model_config.hf_config))
    folder = local_folder(model_config.model, model_config.revision, vllm_config.load_config.download_dir)
    weights = check_weights(file, folder, allow_other_weights, log)
    factor = _platform_factor(file)
    tp_rank, tp_size = _tensor_parallel()
    used, left_alone, per_head = set(), set(), 0
    for name, module in _caches(model):
        layer = layer_for(file, name, _index_of(file, name, module))
        if vllm_config.cache_config.kv_cache_dtype_skip_layers and module.kv_cache_dtype == "auto":
            left_alone.add(layer.index)
            continue
        _check_module(name, module)
        if layer.index in used and not getattr(module, "kv_sharing_target_layer_name", None):
            raise ScaleError(f"{name}: a second cache of layer {layer.index}, the file knows of one")
        check_geometry(layer, _cache_of(name, module), [tp_size])
        module._kv_cache_scales = _scales_of(layer, module, tp_rank, tp_size, factor)
        per_head += any(len(scales) > 1 for scales in module._kv_cache_scales.values())
        _pin(module)
        used.add(layer.index)
        log.debug("kv-cache-scales: %s %s", name, module._kv_cache_scales)
    first, end = model_config.get_layers_start_end_indices(vllm_config.parallel_config)
    if not used:
        raise ScaleError("no layer of this rank has an FP8 cache: serve with --kv-cache-dtype fp8")
    check_all_used(file, used | left_alone, first, end, model_config.get_total_num_hidden_layers())
    if tp_rank == 0:
        granularity = "head" if per_head else "tensor"
        log.info(LOG_LINE, len(used), file.path, file.sha256[:12], granularity, weights)
        log.info("kv-cache-scales: layers that would have another scale, 1.0, without it: %s", departing(file, used, per_head))


def _install_mtp(model, vllm_config, model_config):
    """Of a draft that is the checkpoint's own MTP layer. Any other draft is left alone, and so is a cache that is not FP8."""
    speculative = vllm_config.speculative_config
    own = speculative is not None and speculative.method == "mtp"
    if not own or model_config.model != speculative.target_model_config.model:
        return
    caches = [(name, module) for name, module in _caches(model) if module.kv_cache_dtype in ("fp8", "fp8_e4m3")]
    if not caches:
        return
    file = read_scale_file(_options(vllm_config)[0])
    factor, (tp_rank, tp_size) = _platform_factor(file), _tensor_parallel()
    for layer, name, module in mtp_pairs(file, caches, log):
        _check_module(name, module)
        check_geometry(layer, _cache_of(name, module), [tp_size])
        module._kv_cache_scales = _scales_of(layer, module, tp_rank, tp_size, factor)
        _pin(module)


def _tensor_parallel():
    from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size

    return get_tensor_model_parallel_rank(), get_tensor_model_parallel_world_size()


def _platform_factor(file):
    """gfx942 stores e4m3fnuz, in which every number is half as large: vLLM doubles the scales of checkpoints there."""
    from vllm.platforms import current_platform

    fnuz = current_platform.is_fp8_fnuz()
    if file.dtype == "fp8_e4m3" or (fnuz and file.dtype == "fp8_e4m3fnuz"):
        return 2.0 if fnuz and file.dtype == "fp8_e4m3" else 1.0
    raise ScaleError(f"{file.path} holds scales for {file.dtype}, this device's FP8 is e4m3{'fnuz' if fnuz else ''}")


def _caches(model):
    """Modules that keep or read a KV cache; classes of their own, too, are known by their scale buffer."""
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

    for name, module in model.named_modules():
        if isinstance(module, AttentionLayerBase) and hasattr(module, "_k_scale"):
            if getattr(module, "attn_type", "decoder") not in ("encoder", "encoder_only"):  # these keep nothing
                yield name, module


def _index_of(file, name, module):
    if shared := re.search(r"\.dpa_list\.(\d+)$", name):  # Zamba2: a block's modules, one per layer that runs it
        return dict(enumerate(sorted(file.layers))).get(int(shared[1]), -1)
    target = getattr(module, "kv_sharing_target_layer_name", None)
    index = layer_index(target or name)
    if index is None:
        raise ScaleError(f"{name}: its name does not say which layer it is")
    return index


def _check_module(name, module):
    dtype, backend = module.kv_cache_dtype, module.get_attn_backend().get_name()
    if getattr(module, "attn_type", "decoder") != "decoder":
        raise ScaleError(f"{name}: a cache of encoder-decoder attention, of which no scale file knows")
    if dtype.endswith("ds_mla"):
        raise ScaleError(f"{name}: a cache of {dtype} computes its own scales, those of a file have no effect")
    if dtype not in ("fp8", "fp8_e4m3"):
        raise ScaleError(f"{name}: its cache is {dtype}, not FP8: serve with --kv-cache-dtype fp8")
    if hasattr(module, "kv_lora_rank") and backend not in MLA_BACKENDS:
        raise ScaleError(
            f"{name}: the MLA backend {backend} is not known to apply scales; --attention-backend {MLA_BACKENDS[0]} "
            f"or one of {', '.join(MLA_BACKENDS[1:])}"
        )


def _cache_of(name, module):
    if hasattr(module, "kv_lora_rank"):
        n_heads = getattr(module, "num_local_heads", None) or module.num_heads
        row = module.kv_lora_rank + module.qk_rope_head_dim
        return Cache(name, "mla", n_heads, 1, row, module.kv_lora_rank)
    width_v = getattr(module, "head_size_v", module.head_size)
    return Cache(name, "gqa", module.num_heads, module.num_kv_heads, module.head_size, width_v)


def _scales_of(layer, module, tp_rank, tp_size, factor):
    """{"k", "v", "q": numbers}: one per KV head of this rank where file and module have them, else one."""
    scales = {}
    for site, scale in layer.scale.items():
        scales[site] = [scale]
        if site in layer.per_head and getattr(module, f"_{site}_scale").numel() == module.num_kv_heads:
            heads = layer.per_head[site]
            heads = largest_per_group(heads, layer.n_kv_heads) if site == "q" else heads
            scales[site] = heads_of_rank(heads, module.num_kv_heads, tp_rank, tp_size)
        scales[site] = [factor * s for s in scales[site]]
    return scales


def _pin(module):
    """Sets the scales, now and after every reload of weights, which puts those of the checkpoint or 1.0 in place."""
    process = module.process_weights_after_loading

    def process_weights_after_loading(*args, **kwargs):
        process(*args, **kwargs)
        _set(module)

    module.process_weights_after_loading = process_weights_after_loading
    _set(module)


def _set(module):
    import torch

    for site, scales in module._kv_cache_scales.items():
        buffer = getattr(module, f"_{site}_scale")
        values = torch.tensor(scales, dtype=buffer.dtype, device=buffer.device)
        # In place: captured graphs keep the pointer.
        with torch.no_grad():
            buffer.copy_(values.expand(buffer.numel()).reshape(buffer.shape))
            if (inverse := getattr(module, f"_{site}_scale_inv", None)) is not None:
                inverse.copy_(buffer.reciprocal().reshape(inverse.shape))
        setattr(module, f"_{site}_scale_float", max(scales))
        if (on_host := getattr(module, f"_{site}_scale_cpu", None)) is not None:
            on_host.fill_(max(scales))


def _record(model, vllm_config, model_config):
    """Statistics of live traffic. Whatever is wrong is said in one line, and the server goes on without them."""
    try:
        import kvcal.vllm_recorder as vllm_recorder
    except ImportError as error:
        return log.error("kv-cache-record: nothing is recorded: it needs the wheel kvcal (%s)", error)
    vllm_recorder.start(sys.modules[__name__], model, vllm_config, model_config)
