"""tokenizer.json files put together at random from every component and option, over two small trained vocabularies.

Public tokenizers combine the components in ways that nobody lists in advance; what the named structures do not cover,
these do.
"""

import json

from structures import BLOOM, CORPUS, D3, G2, K2, L3, O2, Q35, TK, STRUCTURES
from tokenizers import Tokenizer

_BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
_REGEXES = [r"\s+", r"\p{N}", r"[0-9]{1,3}", r"\p{Lu}", r"[aeiou]", r"\s*", r"x*", r"(?<=a)b|\bt", r"[^\w\s]+", G2, L3, Q35, O2,
            TK, K2, BLOOM, *D3, r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}+| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s", r"$",
            r"[\p{P}&&[^']]|\p{M}", r"(.)\1", r"(?m:^.*$)", r"\h|\X", r"(?>a|an)n", r"\p{^L}+", r"[[:alpha:]]+|[[:^space:]]"]
_LITERALS = [" ", "▁", "  ", "a", "the", "\n", "-", "é", "", "0"]


def _flag(rng):
    return rng.random() < 0.5


def _pattern(rng, may_be_empty=True):
    """Replacing "" is left out: it can hang the reference."""
    literals = _LITERALS if may_be_empty else [t for t in _LITERALS if t]
    return {"Regex": rng.choice(_REGEXES)} if _flag(rng) else {"String": rng.choice(literals)}


def _normalizer(rng, deep=0):
    kind = rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Prepend", "Replace", "Replace",
                       "Sequence", "Sequence"])
    if kind == "Strip":
        return {"type": kind, "strip_left": _flag(rng), "strip_right": _flag(rng)}
    if kind == "Prepend":
        return {"type": kind, "prepend": rng.choice(["▁", " ", "a b", "é"])}
    if kind == "Replace":
        return {"type": kind, "pattern": _pattern(rng, False), "content": rng.choice(["▁", " ", "", "xy", "…"])}
    if kind == "Sequence":
        return {"type": kind, "normalizers": [_normalizer(rng, deep + 1) for _ in range(rng.randrange(4 - deep))]}
    return {"type": kind}


def _pre_tokenizer(rng, deep=0):
    kind = rng.choice(["Split", "Split", "ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "Metaspace",
                       "Metaspace", "Sequence", "Sequence", "BertPreTokenizer", "CharDelimiterSplit"])
    if kind == "Split":
        return {"type": kind, "pattern": _pattern(rng), "behavior": rng.choice(_BEHAVIORS), "invert": _flag(rng)}
    if kind == "ByteLevel":
        return {"type": kind, "add_prefix_space": _flag(rng), "trim_offsets": _flag(rng), "use_regex": _flag(rng)}
    if kind == "Digits":
        return {"type": kind, "individual_digits": _flag(rng)}
    if kind == "Punctuation":
        return {"type": kind, "behavior": rng.choice(_BEHAVIORS)}
    if kind == "Metaspace":
        if rng.random() < 0.2:  # as old files have it
            return {"type": kind, "replacement": "▁", "add_prefix_space": _flag(rng)}
        return {"type": kind, "replacement": rng.choice(["▁", "▁", "_"]),
                "prepend_scheme": rng.choice(["first", "always", "never"]), "split": _flag(rng)}
    if kind == "CharDelimiterSplit":
        return {"type": kind, "delimiter": rng.choice([" ", "-", "é"])}
    if kind == "Sequence":
        return {"type": kind, "pretokenizers": [_pre_tokenizer(rng, deep + 1) for _ in range(rng.randrange(4 - deep))]}
    return {"type": kind}


def _decoder(rng, deep=0):
    kind = rng.choice(["ByteLevel", "ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip", "Metaspace", "BPEDecoder",
                       "Sequence", "Sequence"])
    if kind == "Replace":
        return {"type": kind, "pattern": _pattern(rng), "content": rng.choice([" ", "", "▁"])}
    if kind == "Strip":
        return {"type": kind, "content": rng.choice([" ", "▁", "a"]), "start": rng.randrange(3), "stop": rng.randrange(2)}
    if kind == "Metaspace":
        return {"type": kind, "replacement": "▁", "prepend_scheme": rng.choice(["first", "always", "never"]),
                "split": _flag(rng)}
    if kind == "BPEDecoder":
        return {"type": kind, "suffix": rng.choice(["</w>", "e"])}
    if kind == "Sequence":
        return {"type": kind, "decoders": [_decoder(rng, deep + 1) for _ in range(rng.randrange(5 - deep))]}
    return {"type": kind}


def _post_processor(rng, kind=None):
    kind = kind or rng.choice(["ByteLevel", "TemplateProcessing", "TemplateProcessing", "RobertaProcessing",
                               "BertProcessing", "Sequence"])
    if kind == "ByteLevel":
        return {"type": kind, "add_prefix_space": _flag(rng), "trim_offsets": _flag(rng), "use_regex": _flag(rng)}
    if kind == "TemplateProcessing":
        def special(i):
            return {"SpecialToken": {"id": f"t{i}", "type_id": 0}}
        single = [special(0)] * rng.randrange(2) + [{"Sequence": {"id": "A", "type_id": 0}}] + [special(1)] * rng.randrange(3)
        return {"type": kind, "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"t0": {"id": "t0", "ids": [5], "tokens": ["t0"]},
                                   "t1": {"id": "t1", "ids": [6, 7], "tokens": ["t1", "t1"]}}}
    if kind == "Sequence":
        # Two that add tokens are refused by kvcal: the second would treat every token of the first as a text.
        steps = [_post_processor(rng, k) for k in ("ByteLevel", rng.choice(["TemplateProcessing", "RobertaProcessing"]))]
        return {"type": kind, "processors": rng.sample(steps, rng.randrange(3))}
    ends = {"sep": ["</s>", 8], "cls": ["<s>", 9]}
    return {"type": kind, **ends, **({"trim_offsets": True, "add_prefix_space": False} if "Rob" in kind else {})}


def _added_tokens(rng, vocab):
    contents = ["<s>", "</s>", "<a>", "<a><b>", "<b>", "word", "the", " the", "raw", "  ", "    ", "\n\n", "▁▁", "É", "ﬁx", "12",
                "a", "<|im_start|>", "x y", "WORD"]
    tokens, next_id = [], max(vocab.values()) + 1
    for content in rng.sample(contents, rng.randrange(8)):
        number = vocab.get(content)
        if number is None:
            number, next_id = next_id, next_id + 1
        tokens.append({"id": number, "content": content, "special": _flag(rng), "normalized": _flag(rng),
                       "single_word": rng.random() < 0.3, "lstrip": rng.random() < 0.3, "rstrip": rng.random() < 0.3})
    return tokens


def _models():
    byte_level = json.loads(STRUCTURES["starcoder"]().to_str())["model"]
    sentencepiece = json.loads(STRUCTURES["llama2"]().to_str())["model"]
    return byte_level, sentencepiece


_MODELS = None


def _bpe_model(rng):
    global _MODELS
    _MODELS = _MODELS or _models()
    model = dict(rng.choice(_MODELS))
    model["ignore_merges"] = _flag(rng)
    if "<unk>" in model["vocab"]:
        model["unk_token"] = rng.choice(["<unk>", None])
        model["fuse_unk"] = _flag(rng)
        model["byte_fallback"] = _flag(rng)
        if rng.random() < 0.3:  # some byte tokens are missing
            model["vocab"] = {k: v for k, v in model["vocab"].items() if k not in ("<0xE2>", "<0xC3>")}
    if _flag(rng):
        model["merges"] = [" ".join(m) for m in model["merges"] if not any(" " in part for part in m)]
    return model


def random_structure(rng, make_model=_bpe_model, normalizers=()):
    """A tokenizer.json document that the reference accepts; `normalizers` may stand before the random ones."""
    while True:
        model = make_model(rng)
        ids = model["vocab"] if isinstance(model["vocab"], dict) else {p: i for i, (p, _) in enumerate(model["vocab"])}
        j = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": _added_tokens(rng, ids),
             "normalizer": _normalizer(rng) if rng.random() < 0.8 else None,
             "pre_tokenizer": _pre_tokenizer(rng) if rng.random() < 0.9 else None,
             "post_processor": _post_processor(rng) if _flag(rng) else None,
             "decoder": _decoder(rng) if rng.random() < 0.9 else None, "model": model}
        if normalizers and _flag(rng):
            steps = [rng.choice(normalizers)] + ([j["normalizer"]] if j["normalizer"] else [])
            j["normalizer"] = {"type": "Sequence", "normalizers": steps}
        try:
            tok = Tokenizer.from_str(json.dumps(j))
        except Exception:  # a combination that the reference does not load
            continue
        # Contents that the normalizer makes empty match everywhere (the reference may hang), those that it makes equal
        # compete: the reference takes one or the other by chance.
        if tok.normalizer:
            contents = [tok.normalizer.normalize_str(t["content"]) for t in j["added_tokens"] if t["normalized"]]
            if "" in contents or len(set(contents)) < len(contents):
                continue
        return j
