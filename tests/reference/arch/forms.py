"""The same model described by other config.json files, as they are found: keys left to the class's defaults, older
rope keys, null, keys that mean nothing. Both sides read the file that results."""

from dice import Dice

KEPT = ("model_type", "architectures", "vocab_size", "text_config", "vision_config", "layers_block_type")
NOISE = dict(attention_dropout=0.0, initializer_range=0.02, use_cache=True, transformers_version="4.40.1",
             pretraining_tp=1, _name_or_path="", quantization_config=None, auto_map={}, torchscript=False)


def leave_out_defaults(r: Dice, part: dict, config) -> None:
    """Keys whose value is what the class has without them."""
    default = type(config)().to_dict()
    for key in sorted(part):
        if key not in KEPT and key in default and default[key] == part[key] and r.flag(0.6):
            del part[key]


def older_rope(r: Dice, part: dict, theta: float | None) -> None:
    """rope_theta at the top, the rest in rope_scaling, with one name of the type or the other."""
    table = part.get("rope_parameters")
    if not isinstance(table, dict) or "rope_type" not in table:
        return
    del part["rope_parameters"]
    table = dict(table)
    base, kind = table.pop("rope_theta"), table.pop("rope_type")
    if base != theta or r.flag(0.7):
        part["rope_theta"] = base
    if "partial_rotary_factor" in table:
        part["partial_rotary_factor"] = table.pop("partial_rotary_factor")
    if kind == "default" and not table:
        part.update(r.choice(({}, {"rope_scaling": None})))
        return
    names = r.choice((("type",), ("rope_type",), ("type", "rope_type")))
    part["rope_scaling"] = dict(table, **{name: kind for name in names})


def older_rope_by_kind(r: Dice, part: dict) -> None:
    """Gemma 3: the base of the sliding layers beside that of the others, the scaling of the others alone."""
    table = part["rope_parameters"]
    if table["sliding_attention"]["rope_type"] != "default":
        return
    full = dict(table["full_attention"])
    del part["rope_parameters"]
    part.update(rope_theta=full.pop("rope_theta"), rope_local_base_freq=table["sliding_attention"]["rope_theta"])
    if full["rope_type"] != "default" or r.flag():
        part["rope_scaling"] = full if full["rope_type"] != "default" else None


def older_geometry(r: Dice, part: dict) -> None:
    """Gemma 4 as published: two keys for all full layers instead of a table by layer."""
    full = [str(i) for i, word in enumerate(part.get("layer_types") or []) if word == "full_attention"]
    table = {str(i): own for i, own in part["per_layer_config"].items()}
    own = [table.get(i) for i in full]
    if not full or set(table) != set(full) or any(x != own[0] for x in own):
        return
    if "num_key_value_heads" in own[0] and not part.get("attention_k_eq_v"):
        return
    del part["per_layer_config"]
    part["global_head_dim"] = own[0].get("head_dim", part["head_dim"])
    if "num_key_value_heads" in own[0]:
        part["num_global_key_value_heads"] = own[0]["num_key_value_heads"]


def null_where_derived(r: Dice, part: dict) -> None:
    heads, hidden = part.get("num_attention_heads"), part.get("hidden_size")
    if heads and part.get("num_key_value_heads") == heads and r.flag(0.4):
        part["num_key_value_heads"] = None
    if heads and part.get("head_dim", hidden // heads) == hidden // heads and "kv_lora_rank" not in part and r.flag(0.3):
        part["head_dim"] = None


def rewritten(r: Dice, config: dict, model_config) -> dict:
    """Another config.json of the same model; not every one is read by the reference framework."""
    text = model_config.get_text_config()
    part = config.get("text_config", config)
    if r.flag(0.7):
        leave_out_defaults(r, part, text)
    if r.flag(0.6):
        older_rope(r, part, text.default_theta)
    if "sliding_attention" in (part.get("rope_parameters") or {}) and part["model_type"].startswith("gemma3") and r.flag():
        older_rope_by_kind(r, part)
    if part.get("per_layer_config") and "head_dim" in part and r.flag():
        older_geometry(r, part)
    if part["model_type"] == "deepseek_v3" and part is not config and r.flag():
        part["model_type"] = "kimi_k2"  # as Kimi-K2.5 is published
    if r.flag(0.4):
        null_where_derived(r, part)
    if r.flag(0.3):
        part.pop("layer_types", None)
    if r.flag(0.4):
        part.update({key: value for key, value in NOISE.items() if key not in part and r.flag(0.3)})
    if r.flag() and "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    return config
