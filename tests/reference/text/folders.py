"""Checkpoint folders whose configuration files say more, or other things, about added tokens than tokenizer.json."""

import json
import logging
import pathlib
import tempfile

from structures import STRUCTURES

TEXTS = ["x<new>y", " <new> y", "<s>a", "a <|im_end|> b", "wordnew newword new", "<extra>", "[A] [B]", "a<tool_call> b",
         "other the x", " thesis the", "The x", "x<A>y <a> z", "RAW raw Raw", "word Word WORD"]


def _token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False,
            "special": True, "__type": "AddedToken", **flags}


def _decoder(structure, content=None, **flags):
    """added_tokens_decoder as tokenizer.json has it, with other flags of one token."""
    tokens = json.loads(STRUCTURES[structure]().to_str())["added_tokens"]
    table = {str(t.pop("id")): t for t in tokens}
    for t in table.values():
        if t["content"] == content:
            t.update(flags)
    return table


_QWEN = _decoder("qwen2")
_NEXT = max(map(int, _QWEN)) + 1
# name: (structure, tokenizer_config.json, special_tokens_map.json, added_tokens.json)
FOLDERS = {
    "no_files": ("llama3", None, None, None),
    "decoder_adds": ("qwen2", {"added_tokens_decoder": {**_QWEN, str(_NEXT): _token("<new>")}}, None, None),
    "decoder_leaves_a_gap": ("qwen2", {"added_tokens_decoder": {**_QWEN, str(_NEXT + 5): _token("<new>")}}, None, None),
    "decoder_states_another_id": ("qwen2", {"added_tokens_decoder": {"3": _token("<new>")}}, None, None),
    "decoder_strips": ("qwen2", {"added_tokens_decoder": _decoder("qwen2", "<|im_end|>", lstrip=True, rstrip=True)},
                       None, None),
    "decoder_makes_special": ("qwen2", {"added_tokens_decoder": _decoder("qwen2", "<tool_call>", special=True,
                                                                         rstrip=True)}, None, None),
    "decoder_wants_single_words": ("qwen2", {"added_tokens_decoder": _decoder("qwen2", "<tool_call>", single_word=True,
                                                                              normalized=True)}, None, None),
    "decoder_special_normalized": ("added_token_flags", {"added_tokens_decoder": _decoder(
        "added_token_flags", "<a>", normalized=True)}, None, None),
    "decoder_normalized": ("added_token_flags", {"added_tokens_decoder": _decoder(
        "added_token_flags", "raw", normalized=True)}, None, None),
    "decoder_not_normalized": ("added_token_flags", {"added_tokens_decoder": _decoder(
        "added_token_flags", "the", normalized=False, single_word=True)}, None, None),
    "names": ("qwen2", {"eos_token": "<|im_end|>", "pad_token": "<extra>"}, None, None),
    "names_with_flags": ("qwen2", {"eos_token": _token("<|im_end|>", lstrip=True),
                                   "bos_token": _token("<new>", rstrip=True)}, None, None),
    "name_of_a_plain_token": ("qwen2", {"eos_token": "<tool_call>"}, None, None),
    "extra_list": ("qwen2", {"extra_special_tokens": ["<extra>", "new"]}, None, None),
    "extra_names": ("qwen2", {"extra_special_tokens": {"a_token": "[A]", "b_token": "[B]"}}, None, None),
    "specific_names": ("qwen2", {"model_specific_special_tokens": {"image_token": "[A]", "tool_token": "<tool_call>",
                                                                   "end": _token("[B]", rstrip=True)}}, None, None),
    "specific_names_beside_a_token": ("qwen2", {"model_specific_special_tokens": {"image_token": "[A]"},
                                                "sound_token": "[B]"}, None, None),
    "specific_names_beside_extra_names": ("qwen2", {"model_specific_special_tokens": {"image_token": "[A]"},
                                                    "extra_special_tokens": {"sound_token": "[B]"}}, None, None),
    "specific_names_beside_an_extra_list": ("qwen2", {"model_specific_special_tokens": {"image_token": "[A]"},
                                                      "extra_special_tokens": ["[B]"]}, None, None),
    "specific_names_with_decoder": ("qwen2", {"model_specific_special_tokens": {"image_token": "[A]"},
                                              "added_tokens_decoder": _QWEN}, None, None),
    "specific_names_and_map": ("qwen2", {"model_specific_special_tokens": {"image_token": "[A]"}},
                               {"sound_token": "[B]", "extra_special_tokens": {"other_token": "<new>"}}, None),
    "no_specific_names": ("qwen2", {"model_specific_special_tokens": {}, "sound_token": "[B]"}, None, None),
    "additional": ("qwen2", {"additional_special_tokens": ["<tool_call>", "[A]"]}, None, None),
    "additional_with_flags": ("qwen2", {"additional_special_tokens": [_token("[A]", rstrip=True)]}, None, None),
    "map": ("qwen2", {}, {"eos_token": "<extra>", "additional_special_tokens": ["<new>"]}, None),
    "map_wins": ("qwen2", {"eos_token": "<|im_end|>"}, {"eos_token": _token("<new>", lstrip=True, rstrip=True)}, None),
    "map_is_not_read": ("qwen2", {"eos_token": "<|im_end|>", "added_tokens_decoder": _QWEN},
                        {"eos_token": "<extra>", "pad_token": "<new>"}, None),
    "added_tokens": ("qwen2", {}, None, {"<new>": _NEXT, "[A]": _NEXT + 1}),
    "added_tokens_are_not_read": ("qwen2", {"added_tokens_decoder": _QWEN}, None, {"<new>": _NEXT}),
    "no_bos_wanted": ("llama3", {"add_bos_token": False, "bos_token": "<|begin_of_text|>"}, None, None),
    "bos_wanted": ("starcoder", {"add_bos_token": True, "bos_token": "<|endoftext|>"}, None, None),
    "eos_wanted": ("llama2", {"add_eos_token": True, "bos_token": "<s>", "eos_token": "</s>"}, None, None),
    "prefix_space_unwanted": ("gpt2", {"add_prefix_space": False}, None, None),
}


def folder_goldens():
    from transformers import AutoTokenizer

    logging.disable(logging.CRITICAL)
    cases = []
    for name, (structure, config, special_map, added) in FOLDERS.items():
        if config is not None:
            config = {"tokenizer_class": "PreTrainedTokenizerFast", **config}
        files = {"tokenizer_config.json": config, "special_tokens_map.json": special_map, "added_tokens.json": added}
        files = {k: v for k, v in files.items() if v is not None}
        with tempfile.TemporaryDirectory() as folder:
            STRUCTURES[structure]().save(f"{folder}/tokenizer.json")
            for file, content in files.items():
                pathlib.Path(folder, file).write_text(json.dumps(content))
            tok = AutoTokenizer.from_pretrained(folder)
            rows = [[text, tok.encode(text), tok.encode(text, add_special_tokens=False)] for text in TEXTS]
            names = {k: str(v) for k, v in tok.special_tokens_map.items() if isinstance(v, str)}
        cases.append({"name": name, "structure": structure, "files": files, "special_tokens": names, "rows": rows})
    return cases
