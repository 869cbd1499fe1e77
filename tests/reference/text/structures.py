"""Small tokenizers of every structure that kvcal interprets, trained or put together here.

Each entry of STRUCTURES is a function that returns a `tokenizers.Tokenizer`. They have the shape of real tokenizer.json
files (normalizer, pre-tokenizer, model options, added tokens, post-processor, decoder) with vocabularies of a few hundred
entries, so that goldens stay small.
"""

import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

G2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
L3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
      r"|\s+(?!\S)|\s+")
Q2 = L3.replace(r"\p{N}{1,3}", r"\p{N}")
Q35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
       r"|\s*[\r\n]+|\s+(?!\S)|\s+")
_UP = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOW = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_WORD = r"[^\r\n\p{L}\p{N}]?"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O2 = f"{_WORD}{_UP}*{_LOW}+{_SHORT}|{_WORD}{_UP}+{_LOW}*{_SHORT}|" + r"\p{N}{1,3}|" + _TAIL
TK = f"{_WORD}{_UP}*{_LOW}+|{_WORD}{_UP}+{_LOW}*|" + r"\p{N}|" + _TAIL
D3 = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
      r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
      r"""|\s*[\r\n]+|\s+(?!\S)|\s+"""]
K2 = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
      + _SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
      r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*" + _SHORT + r"|\p{N}{1,3}|" + _TAIL)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It didn't see 12 of the 345 hens; they've gone, we'll wait.",
    "def encode(text, ids):\n    for i in range(10):\n        ids.append(text[i])\n    return ids\n\n\n\tif x == y:\n",
    "Grüße aus Köln, señor! Ça va? Où est l'été? Zażółć gęślą jaźń. Привет, как дела? Καλημέρα κόσμε.",
    "今天天气很好,我们去公园散步吧。東京は日本の首都です。カタカナとひらがな。안녕하세요 세계",
    "नमस्ते दुनिया। مرحبا بالعالم، كيف الحال؟ שלום עולם ไทยภาษา 😀👩‍👩‍👧 🇩🇪 a\u0301 e\u0302 ①②③ ½",
    "{\"key\": [1, 2, 3], \"url\": \"https://example.org/a/b?c=d&e=f\"} <tag attr='v'/> $x^2 + y_1 = 3.14159$",
] * 3


def _train_byte_level(pre, vocab_size=420, normalizer=None, **model):
    tok = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tok.decoder = decoders.ByteLevel()
    return tok


def _split(*patterns):
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _special(tok, *contents):
    tok.add_special_tokens([AddedToken(c, special=True, normalized=False) for c in contents])


def _with_model(tok, **changes):
    """The same tokenizer with other model options, which the Python classes do not all let one set after training."""
    j = json.loads(tok.to_str())
    j["model"].update(changes)
    return Tokenizer.from_str(json.dumps(j))


def _bos(tok, bos, eos=None):
    single = f"{bos} $A" + (f" {eos}" if eos else "")
    ids = [(t, tok.token_to_id(t)) for t in (bos, eos) if t]
    return processors.TemplateProcessing(single=single, pair=f"{single} $B:1", special_tokens=ids)


def qwen2():
    tok = _train_byte_level(_split(Q2), normalizer=normalizers.NFC())
    _special(tok, "<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tok.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)])
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def qwen35():
    tok = _train_byte_level(_split(Q35), normalizer=normalizers.NFC())
    _special(tok, "<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tok.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return tok


def llama3():
    tok = _with_model(_train_byte_level(_split(L3)), ignore_merges=True)
    _special(tok, "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    tok.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), _bos(tok, "<|begin_of_text|>")])
    return tok


def o200k():
    tok = _with_model(_train_byte_level(_split(O2)), ignore_merges=True)
    _special(tok, "<|startoftext|>", "<|endoftext|>", "<|start|>", "<|channel|>", "<|message|>", "<|end|>")
    return tok


def tekken():
    tok = _with_model(_train_byte_level(_split(TK)), ignore_merges=True)
    _special(tok, "<unk>", "<s>", "</s>", "[INST]", "[/INST]")
    tok.post_processor = _bos(tok, "<s>")
    return tok


def deepseek():
    tok = _train_byte_level(_split(*D3))
    tok.normalizer = normalizers.Sequence([])
    _special(tok, "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
    tok.add_tokens([AddedToken("<｜User｜>", normalized=False), AddedToken("<｜Assistant｜>", normalized=False)])
    tok.post_processor = _bos(tok, "<｜begin▁of▁sentence｜>")
    return tok


def kimi():
    tok = _train_byte_level(_split(K2))
    _special(tok, "[BOS]", "[EOS]", "<|im_end|>")
    return tok


def bloom():
    tok = _train_byte_level(_split(BLOOM))
    _special(tok, "<unk>", "<s>", "</s>")
    return tok


def gpt2():
    tok = _train_byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True))
    tok.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=True)])
    tok.add_special_tokens([AddedToken("<mask>", special=True, lstrip=True, normalized=False)])
    tok.post_processor = processors.RobertaProcessing(
        ("<|endoftext|>", tok.token_to_id("<|endoftext|>")), ("<mask>", tok.token_to_id("<mask>")))
    return tok


def starcoder():
    tok = _train_byte_level(pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]))
    _special(tok, "<|endoftext|>", "<fim_prefix>", "<fim_suffix>")
    return tok


def command_r():
    tok = _train_byte_level(pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]), normalizer=normalizers.NFC())
    _special(tok, "<PAD>", "<UNK>", "<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>")
    tok.post_processor = _bos(tok, "<BOS_TOKEN>")
    return tok


def falcon():
    tok = _train_byte_level(pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation(behavior="contiguous"),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
         pre_tokenizers.Digits(individual_digits=False),
         pre_tokenizers.Split(Regex(r"[0-9][0-9][0-9]"), "isolated")]))
    _special(tok, ">>TITLE<<", "<|endoftext|>")
    return tok


def _train_sentencepiece(normalizer, pre, vocab_size=420, **model):
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True, **model))
    tok.normalizer = normalizer
    if pre is not None:
        tok.pre_tokenizer = pre
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    # Only the first lines: rare characters must fall back to bytes.
    tok.train_from_iterator(CORPUS[:3], trainers.BpeTrainer(
        vocab_size=vocab_size + 256, special_tokens=["<unk>", "<s>", "</s>"] + bytes_, show_progress=False,
        max_token_length=8))
    j = json.loads(tok.to_str())
    j["added_tokens"] = [t for t in j["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(j))


_SP_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]


def llama2():
    tok = _train_sentencepiece(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None)
    tok.decoder = decoders.Sequence(_SP_DECODER + [decoders.Strip(" ", 1, 0)])
    tok.post_processor = _bos(tok, "<s>")
    return tok


def phi3():
    """Llama-2's pieces, with added tokens that swallow the white space behind them."""
    tok = llama2()
    tok.add_special_tokens([AddedToken(c, special=True, normalized=False, rstrip=True)
                            for c in ("<|user|>", "<|assistant|>", "<|end|>", "  ")])
    return tok


def gemma():
    tok = _train_sentencepiece(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"))
    _special(tok, "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
    tok.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("▁▁", normalized=False)])
    tok.decoder = decoders.Sequence(_SP_DECODER)
    tok.post_processor = _bos(tok, "<bos>")
    return tok


def metaspace_first():
    tok = _train_sentencepiece(normalizers.Sequence([]), pre_tokenizers.Metaspace(prepend_scheme="first", split=False))
    _special(tok, "<|user|>", "<|assistant|>")
    tok.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    tok.post_processor = _bos(tok, "<s>", "</s>")
    return tok


def metaspace_always():
    tok = _train_sentencepiece(normalizers.NFKC(), pre_tokenizers.Metaspace(prepend_scheme="always", split=True))
    tok.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    return tok


def metaspace_never():
    tok = _train_sentencepiece(normalizers.NFKD(), pre_tokenizers.Metaspace(prepend_scheme="never", split=True))
    tok.decoder = decoders.Metaspace(prepend_scheme="never", split=True)
    return tok


def lowercase_whitespace():
    """No byte fallback: unknown characters fuse into one unknown token or not."""
    tok = Tokenizer(models.BPE(unk_token="[UNK]"))
    tok.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip(),
         normalizers.Replace(Regex(r"[0-9]+"), "0")])
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.train_from_iterator(CORPUS[:3], trainers.BpeTrainer(
        vocab_size=200, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    tok.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tok


def suffix_bpe():
    tok = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator(CORPUS[:3], trainers.BpeTrainer(
        vocab_size=250, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))
    tok.decoder = decoders.BPEDecoder(suffix="</w>")
    return tok


def prefix_bpe():
    tok = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tok.train_from_iterator(CORPUS[:3], trainers.BpeTrainer(
        vocab_size=250, special_tokens=["<unk>"], continuing_subword_prefix="##", show_progress=False))
    return tok


def added_token_flags():
    """Every flag of added tokens, overlapping contents, and contents that the normalizer changes."""
    tok = _train_byte_level(_split(L3), normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]))
    tok.add_special_tokens([AddedToken("<a>", special=True, normalized=False),
                            AddedToken("<a><b>", special=True, normalized=False, rstrip=True),
                            AddedToken("<b>", special=True, normalized=False, lstrip=True, rstrip=True)])
    tok.add_tokens([AddedToken("Word", normalized=True, single_word=True), AddedToken("ﬁx", normalized=True),
                    AddedToken("raw", normalized=False, single_word=True, lstrip=True),
                    AddedToken("the", normalized=True, rstrip=True), AddedToken("    ", normalized=False),
                    AddedToken("  ", normalized=False)])
    return tok


def _behaviors(behavior, invert):
    def make():
        return _train_byte_level(pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(r"\s+|[aeiou]"), behavior, invert=invert),
            pre_tokenizers.Split("-", behavior, invert=invert),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), vocab_size=300)
    return make


STRUCTURES = {f.__name__: f for f in (
    qwen2, qwen35, llama3, o200k, tekken, deepseek, kimi, bloom, gpt2, starcoder, command_r, falcon, llama2, phi3, gemma,
    metaspace_first, metaspace_always, metaspace_never, lowercase_whitespace, suffix_bpe, prefix_bpe,
    added_token_flags)}
for _b in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
    STRUCTURES[f"split_{_b}"] = _behaviors(_b, False)
    STRUCTURES[f"split_{_b}_inverted"] = _behaviors(_b, True)


def strings(rng, n):
    """n awkward strings: fragments of every script, white space, digits, added tokens, lone marks, odd code points."""
    words = sum((line.split(" ") for line in CORPUS[:6]), [])
    odd = [" ", "  ", "   ", "    ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u0085", "\u180e", "\u200b", "\u200d", "\u2028",
           "\u3000", "\x1c", "\x00", "\ufeff", "'s", "'LL", "'ſ", "'T", "’s", "0", "7", "123", "4567", "½", "Ⅷ", "٣", "①",
           "A", "a", "HelloWorld", "iOS", "ÀÉ", "ß", "ﬁ", "ﬁx", "ǅ", "İ", "ς", "Σ", "\u0301", "\u0300", "e\u0301",
           "\u1100\u1161\u11a8", "각", "が", "か\u3099", "Å", "Ω", "語", "汉字", "カナ", "ー", "々", "〆", "한글", "ไทย", "हि",
           "😀", "👩‍👧", "🇩🇪", "\U0001f3fd", "\ufffd", "\U0010ffff", "▁", "▁▁", "Ġ", "Ċ", "<0x0A>", "<0xE2>", "-", "--",
           "/", "//", "/*", ".", "...", "…", "。", "!", "?!", "\"", "(", ")", "[", "]", "{", "}", "\\", "_", "__", "#", "\u2e43",
           "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<s>", "</s>", "<unk>",
           "<mask>", "<think>", "</think>", "<tool_call>", "<bos>", "<start_of_turn>", "<｜User｜>", "[INST]", "[UNK]",
           "<a>", "<b>", "<a><b>", "word", "Word", "WORD", "raw", "the", "The", "thesis", "<|im_", "start|>", "<|user|>"]
    out = ["", " ", "\n", "a", "I'LL don't HelloWorld  12345 a\u0301b\n\n  x\t/ok//\n"]
    while len(out) < n:
        parts = []
        for _ in range(rng.randrange(1, 12)):
            kind = rng.random()
            if kind < 0.45:
                parts.append(rng.choice(odd))
            elif kind < 0.75:
                parts.append(rng.choice(words))
            elif kind < 0.85:
                parts.append(rng.choice(odd) * rng.randrange(1, 7))
            elif kind < 0.93:
                parts.append(chr(rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x300, 0x3100),
                                             rng.randrange(0x4e00, 0x9fa6), rng.randrange(0xac00, 0xd7a4)])))
            else:
                parts.append(rng.choice(words)[:rng.randrange(1, 6)])
            if rng.random() < 0.4:
                parts.append(" ")
        out.append("".join(parts)[:200])
    return out[:n]
