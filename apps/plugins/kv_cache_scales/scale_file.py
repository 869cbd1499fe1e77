"""What both plug-ins share: the scale file, what a layer takes of it, and whether a checkpoint is the one that was measured.

Nothing but the standard library: it is imported before a server knows whether it needs a plug-in.
"""

import dataclasses
import hashlib
import json
import os
import re

LOG_LINE = "kv-cache-scales: %d attention layers use the scales of %s (sha256 %s, per %s, weights %s)"
MAX_FILE_BYTES = 64 << 20
MAX_HEADER_BYTES = 100_000_000
PACK_SCALES = "kv-cache-scales.json"
PACK_SUMS = "SHA256SUMS"
MAX_FOLD_BYTES = 128 << 20


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
    """A kv-cache-scales.json, or the one of a pack: the folder that `kvcal export --to pack` writes."""
    expected = None
    try:
        if os.path.isdir(path):
            path, expected = _in_pack(path)
        with open(path, "rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise ScaleError(f"{path}: more than {MAX_FILE_BYTES} bytes; is it a scale file?")
        sha256 = hashlib.sha256(text).hexdigest()
        if expected not in (None, sha256):
            raise ScaleError(f"{path}: is not the file that was packed: its digest is another one than in {PACK_SUMS}")
        return _parse(path, json.loads(text), sha256)
    except OSError as error:
        raise ScaleError(f"{path}: cannot be read: {error.strerror}") from None
    except ScaleError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ScaleError(f"{path}: no valid kv-cache-scales.json: {type(error).__name__}: {error}") from None


def _in_pack(folder):
    """Where a pack has its scale file, and the digest that its sums have of it."""
    if not os.path.isfile(os.path.join(folder, "kvcal-pack.json")):
        raise ScaleError(f"{folder}: is a folder and no pack: it has no kvcal-pack.json")
    with open(os.path.join(folder, PACK_SUMS), encoding="utf-8") as file:
        sums = dict(reversed(line.rstrip("\n").split("  ", 1)) for line in file if "  " in line)
    if PACK_SCALES not in sums:
        raise ScaleError(f"{folder}: {PACK_SUMS} does not name {PACK_SCALES}")
    return os.path.join(folder, PACK_SCALES), sums[PACK_SCALES]


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


def mtp_pairs(file, caches, log):
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


def departing(file, indexes, per_head=False):
    """Those of these layers that would have another scale without the file: 1.0."""

    def scales(layer):
        return [x for s in "kv" for x in (per_head and layer.per_head.get(s)) or [layer.scale[s]]]

    return sorted(i for i in indexes if any(x != 1 for x in scales(file.layers[i])))


def check_architecture(file, architectures):
    expected = file.model["architecture"]
    if expected not in (architectures or []):
        raise ScaleError(f"{file.path} is for {expected}, this model is {', '.join(architectures or ['unknown'])}")


def check_weights(file, folder, allow_other_weights, log):
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
