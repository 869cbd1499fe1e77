"""SGLang plug-in: an FP8 KV cache with the scales of a kv-cache-scales.json.

KV_CACHE_SCALES=/path/kv-cache-scales.json python -m sglang.launch_server --model-path MODEL --kv-cache-dtype fp8_e4m3

SGLang logs and swallows every Exception of a plug-in, so refusals leave by SystemExit. A plug-in that is not installed, or
kept out by SGLANG_PLUGINS, shows only by its missing log line.
"""

import dataclasses
import hashlib
import json
import logging
import os
import re

log = logging.getLogger("sglang.kv_cache_scales")

LOG_LINE = "kv-cache-scales: %d attention layers use the scales of %s (sha256 %s, per %s, weights %s)"
MAX_FILE_BYTES = 64 << 20
MAX_HEADER_BYTES = 100_000_000
MAX_FOLD_BYTES = 128 << 20

# ---- The scale file and the checkpoint: the same lines in both plug-ins, so that each stays one file ----


class ScaleError(ValueError):
    """Why the server must not start."""

    def __init__(self, reason):
        super().__init__("kv-cache-scales: " + reason)


@dataclasses.dataclass(frozen=True)
class Layer:
    """What the file says of one cache. Scales are float32 multipliers: real = stored * scale."""

    index: int
    kind: str  # "gqa", or "mla": one row [latent | rope part] for all heads
    n_heads: int
    n_kv_heads: int
    head_dim_k: int
    head_dim_v: int
    scale: dict[str, float]  # {"k", "v", "q"}: one number for the whole site
    per_head: dict[str, list]  # the same: one number per head ("q": per query head); empty unless the file has them


@dataclasses.dataclass(frozen=True)
class ScaleFile:
    path: str
    sha256: str
    dtype: str  # number format: "fp8_e4m3", ...
    granularity: str  # "tensor" or "head"
    model: dict[str, object]
    layers: dict[int, Layer]  # by index, only layers that own a cache
    mtp_layers: list[Layer]  # of the MTP layers, where they were measured
    owners: dict[int, int]  # index -> index of the layer whose cache it reads


@dataclasses.dataclass(frozen=True)
class Cache:
    """What the server built for one layer; heads are those of this rank."""

    name: str
    kind: str
    n_heads: int
    n_kv_heads: int
    head_dim_k: int
    head_dim_v: int


def read_scale_file(path):
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise ScaleError(f"{path}: more than {MAX_FILE_BYTES} bytes; is it a scale file?")
        return _parse(path, json.loads(text), hashlib.sha256(text).hexdigest())
    except OSError as error:
        raise ScaleError(f"{path}: cannot be read: {error.strerror}") from None
    except ScaleError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ScaleError(f"{path}: no valid kv-cache-scales.json: {type(error).__name__}: {error}") from None


def _parse(path, root, sha256):
    if root["format"] != "kv-cache-scales" or not re.fullmatch(r"1\.\d+", root["version"]):
        raise ScaleError(f"{path}: format {root['format']!r} version {root['version']!r}, expected kv-cache-scales 1.x")
    model = root["model"]
    for key in ("architecture", "tensor_prefix", "weights_fingerprint"):
        if not isinstance(model[key], str):
            raise ScaleError(f"{path}: model.{key} is not a string")
    layers = {}
    for entry in root["layers"]:
        layer = _parse_layer(path, entry)
        if layer.index in layers:
            raise ScaleError(f"{path}: layer {layer.index} is there twice")
        layers[layer.index] = layer
    mtp = [_parse_layer(path, entry) for entry in root.get("mtp_layers", [])]
    owners = {e["index"]: e["shares_kv_with"] for e in root["layers_without_kv"] if "shares_kv_with" in e}
    quantization = root["quantization"]
    return ScaleFile(str(path), sha256, quantization["dtype"], quantization["granularity"], model, layers, mtp, owners)


def _parse_layer(path, entry):
    numbers = [entry[key] for key in ("index", "n_heads", "n_kv_heads", "head_dim_k", "head_dim_v")]
    if not all(type(n) is int and n >= 0 for n in numbers):
        raise ScaleError(f"{path}: layer {numbers[0]!r}: heads {numbers[1:]} are no whole numbers")
    index, n_heads, n_kv_heads = numbers[:3]
    if entry["kind"] not in ("gqa", "mla"):
        raise ScaleError(f"{path}: layer {index} is of the unknown kind {entry['kind']!r}")
    row = entry["kind"] == "mla"
    sites = {"k": "latent", "v": "latent", "q": "query"} if row else {"k": "key", "v": "value", "q": "query"}
    scale, per_head = {}, {}
    for site, member in sites.items():
        where = f"{path}: layer {index} {member}"
        scale[site] = _positive(where, entry[member]["scale"])
        if "scale_per_head" in entry[member]:
            heads = [_positive(where, x) for x in entry[member]["scale_per_head"]]
            expected = n_heads if site == "q" else 1 if row else n_kv_heads
            if len(heads) != expected:
                raise ScaleError(f"{where}: {len(heads)} scales per head, expected {expected}")
            per_head[site] = heads
    return Layer(index, entry["kind"], *numbers[1:], scale, per_head)


def _positive(where, x):
    # Denormal float32 counts as zero: its reciprocal overflows.
    if isinstance(x, bool) or not isinstance(x, (int, float)) or not 1.1754944e-38 <= x <= 3.4028235e38:
        raise ScaleError(f"{where}: scale {x!r}, expected a positive float32")
    return float(x)


def layer_index(name):
    """The number after "layers." (or "h.", "blocks.") in a module's name, or None."""
    found = re.findall(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)(?=\.|$)", name)
    return int(found[-1]) if found else None


def layer_for(file, name, index):
    """The file's entry for a module; a layer that reads another's cache has its owner's."""
    owner = file.owners.get(index, index)
    if owner not in file.layers:
        raise ScaleError(f"{file.path} has no scales for {name} (layer {index}), which keeps a KV cache in this server")
    return file.layers[owner]


def check_geometry(layer, cache, tp_sizes):
    """`tp_sizes`: over how many ranks this layer's heads may be spread."""
    if cache.kind != layer.kind:
        raise ScaleError(f"{cache.name}: the server keeps a {cache.kind} cache, the scales are for {layer.kind}")
    widths = (cache.head_dim_k, cache.head_dim_v)
    if widths != (layer.head_dim_k, layer.head_dim_v):
        raise ScaleError(
            f"{cache.name}: keys and values are {widths[0]} and {widths[1]} wide in this server, "
            f"{layer.head_dim_k} and {layer.head_dim_v} in the scale file: another model?"
        )
    for tp in tp_sizes:
        if cache.n_heads * tp == layer.n_heads and cache.n_kv_heads == max(1, layer.n_kv_heads // tp):
            return
    raise ScaleError(
        f"{cache.name}: this rank has {cache.n_heads} query and {cache.n_kv_heads} KV heads of "
        f"{' or '.join(map(str, tp_sizes))} ranks, the scale file {layer.n_heads} and {layer.n_kv_heads}: another model?"
    )


def mtp_pairs(file, caches):
    """(layer, name, module) of each cache of a draft, which servers number as they like; none where the file has others."""
    if len(caches) != len(file.mtp_layers):
        log.warning("kv-cache-scales: %s has no scales of %d MTP layers: their caches run at 1.0", file.path, len(caches))
        return []
    log.info("kv-cache-scales: the MTP layer's cache uses the scales of %s (sha256 %s)", file.path, file.sha256[:12])
    return [(layer, *cache) for layer, cache in zip(file.mtp_layers, caches)]


def check_all_used(file, used, first, end, n_layers):
    """`used`: indexes set on this rank, which has the layers first <= i < end of n_layers."""
    is_last = end >= n_layers  # answers for layers that do not exist, too
    missing = sorted(i for i in file.layers if first <= i and (i < end or is_last) and i not in used)
    if missing:
        raise ScaleError(f"{file.path} has scales for layers {missing}, which keep no KV cache in this server")


def check_architecture(file, architectures):
    expected = file.model["architecture"]
    if expected not in (architectures or []):
        raise ScaleError(f"{file.path} is for {expected}, this model is {', '.join(architectures or ['unknown'])}")


def check_weights(file, folder, allow_other_weights):
    """Returns what the log line says of the weights; `folder` holds config.json and *.safetensors."""
    expected = file.model["weights_fingerprint"]
    try:
        actual = weights_fingerprint(folder, file.model["tensor_prefix"], file.model["n_layers"])
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        actual = f"unknown ({type(error).__name__}: {error})"
    if actual == expected:
        return "match"
    if actual in file.model.get("also_valid_for", []):
        return "listed in also_valid_for"
    differ = f"the weights in {folder} have the fingerprint {actual}, {file.path} was made for {expected}"
    if not allow_other_weights:
        raise ScaleError(
            differ + ": calibrate this checkpoint, list it in the file (kvcal export --also-for), or allow_other_weights"
        )
    log.warning("kv-cache-scales: %s; going on because of allow_other_weights", differ)
    return "differ, allow_other_weights"


def local_folder(model, revision=None, cache_dir=None):
    """Of a checkpoint that the server has already loaded from there."""
    if os.path.isdir(model):
        return model
    try:
        from huggingface_hub import snapshot_download

        patterns = ["*.json", "*.safetensors"]
        return snapshot_download(
            model, revision=revision, cache_dir=cache_dir, local_files_only=True, allow_patterns=patterns
        )
    except Exception as error:  # whatever the hub's client throws, the weights cannot be told then
        return f"{model} (no local folder: {type(error).__name__})"


def heads_of_rank(scales, n_local, tp_rank, tp_size):
    """KV heads are cut evenly over ranks; where ranks outnumber heads, neighbors share one."""
    if len(scales) % n_local == 0 and len(scales) // n_local == tp_size:
        return scales[tp_rank * n_local : (tp_rank + 1) * n_local]
    if n_local != 1 or tp_size % len(scales) != 0:
        raise ScaleError(f"{len(scales)} heads do not spread over {tp_size} ranks with {n_local} each")
    shared = tp_rank // (tp_size // len(scales))
    return scales[shared : shared + 1]


def largest_per_group(query_scales, n_kv_heads):
    """One number per KV head: the kernel has one for all query heads that read it."""
    group = len(query_scales) // n_kv_heads
    return [max(query_scales[i : i + group]) for i in range(0, len(query_scales), group)]


# The fingerprint: kvcal's lib/checkpoint/{fingerprint,text_prefix,skip_rules,kv_scale_names}.cpp, name for name.


def weights_fingerprint(folder, tensor_prefix, n_layers):
    tensors = _tensors(folder)
    prefix, head = _text_prefix(tensors, tensor_prefix)
    digest, files = hashlib.sha256(), {}
    try:
        for name in sorted(tensors, key=str.encode):
            if not (name == head or name.startswith(prefix)) or _is_skipped(name, prefix + "layers.", n_layers):
                continue
            path, dtype, shape, begin, end = tensors[name]
            file = files.get(path) or files.setdefault(path, open(path, "rb"))
            digest.update(f"{name}\0{dtype} [{', '.join(map(str, shape))}]\n".encode())
            sample = min(end - begin, 4096)
            for offset in (begin, end - sample):
                file.seek(offset)
                digest.update(file.read(sample))
    finally:
        for file in files.values():
            file.close()
    digest.update(_fold(folder))
    return digest.hexdigest()


def _fold(folder):
    """What kvcal fold multiplied, as canonical JSON: a fold may change nothing but rows that are not sampled."""
    try:
        with open(os.path.join(folder, "kvcal-fold.json"), "rb") as file:
            text = file.read(MAX_FOLD_BYTES + 1)
    except FileNotFoundError:
        return b""
    if len(text) > MAX_FOLD_BYTES:
        raise ValueError(f"kvcal-fold.json: more than {MAX_FOLD_BYTES} bytes")
    tensors = json.loads(text)["tensors"]
    return json.dumps(tensors, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _tensors(folder):
    """{name: (file, dtype, shape, begin, end)}; offsets from the start of the file."""
    found = {}
    for path in _shards(folder):
        with open(path, "rb") as file:
            n = int.from_bytes(file.read(8), "little")
            if n > MAX_HEADER_BYTES:
                raise ValueError(f"{path}: a header of {n} bytes")
            header = json.loads(file.read(n))
        for name, t in header.items():
            if name != "__metadata__":
                begin, end = t["data_offsets"]
                found[name] = (path, t["dtype"], t["shape"], 8 + n + begin, 8 + n + end)
    return found


def _shards(folder):
    names = sorted(os.listdir(folder))
    indexes = [n for n in names if n.endswith(".safetensors.index.json") and not n.startswith("consolidated")]
    if "model.safetensors.index.json" in indexes:
        indexes = ["model.safetensors.index.json"]
    if len(indexes) == 1:
        with open(os.path.join(folder, indexes[0]), "rb") as file:
            shards = sorted(set(json.load(file)["weight_map"].values()))
        if "model.safetensors" not in names or any(s in names for s in shards):  # else the index is a left-over
            return [os.path.join(folder, s) for s in shards]
    if "model.safetensors" in names:
        return [os.path.join(folder, "model.safetensors")]
    single = [n for n in names if n.endswith(".safetensors") and not n.startswith(("consolidated", "adapter_model"))]
    if len(single) != 1:
        raise ValueError(f"{len(single)} safetensors files without an index")
    return [os.path.join(folder, single[0])]


PREFIXES = """model.language_model.model. model.language_model. language_model.model. thinker.model. model.text_model.
model.llm. llm.model. language.model. language_model. model.model. model. backbone. transformer.""".split() + [""]
# Names of the embedding below the prefix, and of the head that goes with each.
EMBEDDINGS = {"embed_tokens.weight": "lm_head.weight", "embeddings.weight": "lm_head.weight", "wte.weight": "lm_head.weight",
              "word_embeddings.weight": "lm_head.weight", "embed_in.weight": "embed_out.weight"}


def _text_prefix(tensors, of_the_file):
    """(prefix of the language model's tensors, full name of the output head or "")."""
    at = [(p, head) for p in PREFIXES + [of_the_file] for e, head in EMBEDDINGS.items() if p + e in tensors]
    if not at:
        raise ValueError("no tensor is called embed_tokens.weight, with or without a prefix")
    prefix, head = at[0]
    beside = prefix[: prefix.rfind(".", 0, -1) + 1] + head
    return prefix, next((n for n in (beside, head, prefix + head) if n in tensors), "")


SKIPPED = """
mtp.* *.mtp.* mtp_* *.mtp_* *.nextn_* *.eagle_* *.draft_* medusa_* visual.* *.visual.* vision.* *.vision.* vision_*
*.vision_* image_* *.image_* vit.* *.vit.* gen_vision_model.* gen_embed.* gen_head.* *.embed_vision.* embed_vision.*
*.img_processor.* img_processor.* patch_embed* *.siglip* sam_model.* *.sam_model.* qwen2_model.* *.qwen2_model.*
*.conformer.* whisper_* *.view_seperator audio.* *.audio.* audio_* *.audio_* *.embed_audio.* embed_audio.* talker.*
code2wav.* token2wav.* speech_* *.speech_* multi_modal_projector.* *.multi_modal_projector.* mm_projector.*
*.mm_projector.* mlp1.* projector.* *.projector.* aligner.* *.aligner.* gen_aligner.* connector.* *.connector.*
patch_merger.* *.patch_merger.* view_seperator *.rotary_emb.* rotary_emb.* *.rotary_pos_emb.* *.inv_freq *.cos_cached
*.sin_cached freqs_cis *.freqs_cis *.input_scale *.activation_scale *.input_global_scale *_input_scale
"""
SKIPPED_NAME = re.compile("|".join(re.escape(p).replace(r"\*", ".*") for p in SKIPPED.split()), re.DOTALL)
KV_SCALE_NAME = re.compile(
    r".*\.([kvq]_scale|kv_scale|prob_scale|prob_output_scale|[kvq]_proj\.output_scale|[kv]_cache\.scale|q\.scale)", re.DOTALL
)


def _is_skipped(name, layers_prefix, n_layers):
    extra = re.match(r"(\d+)\.", name[len(layers_prefix) :]) if name.startswith(layers_prefix) else None
    if extra and int(extra[1]) >= n_layers:
        return True
    as_scale = name[: -len("zero_point")] + "scale" if name.endswith("zero_point") else name
    return bool(KV_SCALE_NAME.fullmatch(as_scale) or SKIPPED_NAME.fullmatch(name))


# ---- The server ----

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
    weights = check_weights(file, folder, os.environ.get("KV_CACHE_SCALES_ALLOW_OTHER_WEIGHTS") == "1")
    used = _set_all(model, file, [(layer_for(file, n, m.layer_id), n, m) for n, m in _caches(model)])
    n_layers = config.num_hidden_layers
    check_all_used(file, used, getattr(model, "start_layer", 0), getattr(model, "end_layer", n_layers), n_layers)
    if get_parallel().tp_rank == 0:
        log.info(LOG_LINE, len(used), file.path, file.sha256[:12], "tensor", weights)
        log.info("kv-cache-scales: layers that would have another scale, 1.0, without it: %s", [
            i for i in sorted(used) if {file.layers[i].scale["k"], file.layers[i].scale["v"]} != {1.0}])


def _install_mtp(model, kv_cache_dtype):
    """Of a draft that is the checkpoint's own MTP layer. Any other draft is left alone, and so is a cache that is not FP8."""
    from sglang.srt.runtime_context import process_model_config

    if kv_cache_dtype == "fp8_e4m3" and DRAFTS[id(model)] == process_model_config().model_path:
        file = read_scale_file(os.environ["KV_CACHE_SCALES"])
        _set_all(model, file, mtp_pairs(file, list(_caches(model))))


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
