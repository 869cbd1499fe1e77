"""Configs that leave nearly everything to their class: what the reference framework makes of them, without weights."""

import torch
from transformers.cache_utils import get_layer_types_and_kwargs

from dice import Dice
from golden_checkpoint import class_of, parameters_of
from reference_run import layers_of, own_name

ATTENDS = ("full_attention", "sliding_attention", "chunked_attention", "hybrid", "attention", "indexed_attention", "minimax_m3_sparse")
NEVER = ("model_type", "architectures", "dtype", "torch_dtype", "transformers_version", "_name_or_path", "is_encoder_decoder")

# Servers go by the text model's own key, which nobody writes; these classes would tie where nothing is said.
ALWAYS_SAID = dict.fromkeys(("KimiK25ForConditionalGeneration", "Mistral3ForConditionalGeneration",
                             "InternVLForConditionalGeneration"),
                            dict(tie_word_embeddings=False))


def silent_config(r: Dice, model: str) -> dict:
    """Some of the keys of the class, with the values that it has anyway."""
    whole = class_of(own_name(model)).config_class()
    text = whole.get_text_config()
    said = {key: value for key, value in text.to_dict().items()
            if key not in NEVER and not isinstance(value, tuple) and "Infinity" not in str(value) and r.flag(0.2)}
    out = dict(ALWAYS_SAID.get(model, {}), architectures=[model], model_type=whole.model_type)
    return out | (said if text is whole else dict(text_config=dict(said, model_type=text.model_type)))


def reading_of(model: str, config: dict) -> dict:
    """As driver.cpp describes a spec: of the layers that own a cache, their heads and windows."""
    own = class_of(own_name(model)).config_class.from_dict(config)
    with torch.device("meta"):
        built = class_of(own_name(model))(own)
    text = own.get_text_config()
    types, details = get_layer_types_and_kwargs(text)
    windows = {str(i): detail.get("sliding_window") or 0 for i, (word, detail) in enumerate(zip(types, details))
               if word in ATTENDS}
    return dict(n_layers=len(layers_of(built)), chunked=hasattr(text, "attention_chunk_size"), vocab=text.vocab_size, hidden=text.hidden_size, windows=windows,
                parameters=parameters_of(built), n_heads=text.num_attention_heads,
                tied=bool(own.tie_word_embeddings))


def differences(ours: dict, theirs: dict) -> list[str]:
    keys = ("n_layers", "vocab", "hidden", "tied", "parameters")
    found = [f"{key} {ours[key]}, expected {theirs[key]}" for key in keys if ours[key] != theirs[key]]
    windows = {layer: cache["window"] for layer, cache in ours["caches"].items()}
    if windows != theirs["windows"] and not theirs["chunked"]:
        found.append(f"windows by layer {windows}, expected {theirs['windows']}")
    found += [f"layer {layer}: {cache['n_heads']} heads, expected {theirs['n_heads']}"
              for layer, cache in list(ours["caches"].items())[:1] if cache["n_heads"] != theirs["n_heads"]]
    return found
