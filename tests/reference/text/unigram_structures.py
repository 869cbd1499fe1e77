"""Small Unigram tokenizers of every shape that kvcal reads: SentencePiece models as transformers converts them, one that
`tokenizers` trained, and vocabularies drawn at random with many ties.

Each entry of UNIGRAM_STRUCTURES is a function that returns the text of a tokenizer.json: the library does not read back
what it writes to the last bit of the scores, so a tokenizer is only what is read from a text.
"""

import base64
import io
import json
import random
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from random_structures import random_structure
from structures import CORPUS, _bos, _special

# A charsmap in the manner of nmt_nfkc, but small: old string, new string. Some strings begin with another one, some
# vanish, some grow, and some have more than one character.
RULES = [("ﬁ", "fi"), ("ﬁx", "[fix]"), ("™", "TM"), ("½", "1/2"), ("①", "1"), ("…", "..."), ("\u00a0", " "), ("\u3000", " "),
         ("\u200b", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("\x01", ""), ("\u007f", ""), ("\u200d", ""), ("¨", " \u0308"),
         ("e\u0301", "é"), ("か\u3099", "が"), ("\u212b", "Å"), ("Ａ", "A"), ("０", "0"), ("ｶ", "カ"), ("ｶﾞ", "ガ"), ("\u0958", "क\u093c"),
         ("ﷺ", "صلى الله عليه وسلم"), ("İ", "i\u0307"), ("ß", "ss"), ("A", "a"), ("T", "t"), ("ǆ", "dž"), ("\u0344", "\u0308\u0301"),
         ("©", "(c)"), ("กำ", "กํา"), ("\u2028", " "), ("\ufeff", ""), ("각", "가\u11a8"), ("😀", ":)"), ("\U0001f1e9", "D"), ("\u2126", "Ω"),
         ("\u2126\u0301", "Ώ")]


def charsmap(rule, cache={}):
    """precompiled_charsmap of a rule of SentencePiece's by name, or of RULES."""
    if rule not in cache:
        cache[rule] = _train(rule, 150).normalizer_spec.precompiled_charsmap
    return cache[rule]


def _train(rule, vocab_size, **options):
    """ModelProto of a model trained on the first lines only: rare characters must be unknown."""
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as tsv:
        if rule == "rules":
            for old, new in RULES:
                tsv.write("\t".join(" ".join(f"{ord(c):04X}" for c in s) for s in (old, new)) + "\n")
            tsv.flush()
            options["normalization_rule_tsv"] = tsv.name
        else:
            options["normalization_rule_name"] = rule
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS[:3] * 4), model_writer=out, vocab_size=vocab_size, hard_vocab_limit=False,
            minloglevel=2, num_threads=1, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return proto


def _convert(proto, normalizer, pre, decoder, byte_fallback=False):
    pieces = [(p.piece, p.score) for p in proto.pieces]
    tok = Tokenizer(models.Unigram(pieces, unk_id=proto.trainer_spec.unk_id, byte_fallback=byte_fallback))
    tok.normalizer = normalizer
    if pre is not None:
        tok.pre_tokenizer = pre
    tok.decoder = decoder
    tok.add_tokens([AddedToken(p.piece, normalized=False, special=p.type == 3) for p in proto.pieces if p.type in (3, 4)])
    return tok


def _precompiled(*more, rule="rules"):
    return normalizers.Sequence([normalizers.Precompiled(charsmap(rule)), *more])


_SPACES = normalizers.Replace(Regex(" {2,}"), "▁")
_META = {"replacement": "▁", "prepend_scheme": "always"}


def unigram_t5():
    proto = _train("rules", 300, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    tok = _convert(proto, _precompiled(normalizers.Strip(left=False, right=True), _SPACES),
                   pre_tokenizers.Metaspace(**_META), decoders.Metaspace(**_META))
    _special(tok, "<extra_id_1>", "<extra_id_0>")
    tok.post_processor = _bos(tok, "</s>")
    return tok.to_str()


def unigram_xlm_roberta():
    proto = _train("rules", 200)
    tok = _convert(proto, _precompiled(), pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(**_META)]), decoders.Metaspace(**_META))
    tok.add_special_tokens([AddedToken("<mask>", special=True, lstrip=True, normalized=False)])
    tok.post_processor = _bos(tok, "<s>", "</s>")
    return tok.to_str()


def unigram_first_word():
    """Prefix of the first word only, behind a normalizer that makes several characters of the first."""
    proto = _train("rules", 200)
    meta = {**_META, "prepend_scheme": "first"}
    tok = _convert(proto, _precompiled(), pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(**meta)]), decoders.Metaspace(**meta))
    return tok.to_str()


_SP_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]


def unigram_llama():
    proto = _train("identity", 560, byte_fallback=True, split_digits=True, remove_extra_whitespaces=False)
    tok = _convert(proto, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
                   decoders.Sequence(_SP_DECODER + [decoders.Strip(" ", 1, 0)]), byte_fallback=True)
    tok.post_processor = _bos(tok, "<s>")
    return tok.to_str()


def unigram_spaces():
    """Runs of spaces as pieces, and text that is never cut before the model."""
    proto = _train("identity", 560, byte_fallback=True, remove_extra_whitespaces=False, add_dummy_prefix=False,
                   user_defined_symbols=["▁▁", "▁▁▁▁", "<|im_start|>"])
    tok = _convert(proto, normalizers.Replace(" ", "▁"), None, decoders.Sequence(_SP_DECODER), byte_fallback=True)
    return tok.to_str()


def unigram_albert():
    proto = _train("rules", 200)
    tok = _convert(proto, normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), normalizers.Precompiled(charsmap("rules")), normalizers.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizers.Metaspace(**_META), decoders.Metaspace(**_META))
    return tok.to_str()


def unigram_trained():
    """As the library trains its own."""
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(**_META)
    tok.train_from_iterator(CORPUS[:4], trainers.UnigramTrainer(
        vocab_size=180, special_tokens=["<unk>", "<s>"], unk_token="<unk>", show_progress=False))
    tok.decoder = decoders.Metaspace(**_META)
    return tok.to_str()


def random_model(rng):
    """Pieces of a few letters with scores that often tie, some of them known under two ids, and an unknown piece."""
    letters = rng.choice(["ab▁", "ae▁ th", "abé語▁", "ein r▁s\u0301ot"])
    if rng.random() < 0.5:
        scores = [-1.0, -2.0, -3.0, -1.1, -2.2, -3.3, -4.4, -0.1, -0.2, -0.30000000000000004]
    else:
        scores = [-rng.uniform(0.5, 9) for _ in range(rng.choice([4, 12]))]
    if rng.random() < 0.15:  # unknown pieces that pay off
        scores = [s + 25 for s in scores]
    pieces = ["".join(rng.choice(letters) for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 6]))) for _ in
              range(rng.choice([12, 40, 120]))]
    words = [w[:rng.randrange(1, 6)] for line in CORPUS[:6] for w in line.split() if rng.random() < 0.4]
    pieces += rng.choice([[], words]) + rng.choice([[], ["<s>", "</s>", "a<", "<a>"]])
    vocab = [[p, rng.choice(scores)] for p in pieces]
    if rng.random() < 0.4:
        vocab += [[f"<0x{b:02X}>", rng.choice([-50.0, 0.0])] for b in range(256) if rng.random() < rng.choice([1, 0.97])]
    if rng.random() < 0.3:
        vocab += [[p, rng.choice(scores)] for p, _ in rng.sample(vocab, 5)]
    rng.shuffle(vocab)
    unk = rng.choice([0, rng.randrange(len(vocab))])
    if rng.random() < 0.7:
        vocab[unk] = ["<unk>", 0]
    model = {"type": "Unigram", "unk_id": unk, "vocab": vocab, "byte_fallback": rng.random() < 0.5}
    if rng.random() < 0.1:
        del model["type"]
    return model


def _ties(seed, byte_fallback):
    def make():
        model = random_model(random.Random(f"ties {seed}")) | {"byte_fallback": byte_fallback}
        return json.dumps({"version": "1.0", "added_tokens": [], "model": model, "normalizer": {
            "type": "Replace", "pattern": {"String": " "}, "content": "▁"}})
    return make


UNIGRAM_STRUCTURES = {f.__name__: f for f in (
    unigram_t5, unigram_xlm_roberta, unigram_first_word, unigram_llama, unigram_spaces, unigram_albert, unigram_trained)}
UNIGRAM_STRUCTURES |= {f"unigram_ties_{i}": _ties(i, i % 2 == 0) for i in range(4)}


def random_unigram(rng):
    """Text of a tokenizer.json with a random Unigram model and random components around it."""
    return json.dumps(random_structure(rng, random_model, [{"type": "Nmt"}, _precompiled_json("rules")]))


def bare_unigram(rng):
    """Text of a tokenizer.json that is nothing but a random Unigram model, which may have no unknown piece."""
    model = random_model(rng)
    if rng.random() < 0.1:
        model["unk_id"] = None
    return json.dumps({"version": "1.0", "added_tokens": [], "model": model})


def _precompiled_json(rule):
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap(rule)).decode()}


def charsmap_document(rule):
    """Shows what the charsmap does to a text: every character falls back to its bytes."""
    vocab = [["<unk>", 0.0]] + [[f"<0x{b:02X}>", -1.0] for b in range(256)]
    return json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": _precompiled_json(rule), "decoder": {"type": "ByteFallback"},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": True}})


# Marks that kvcal's regular expressions do not know yet; its charsmaps do.
YOUNG_MARKS = ["½\u0897a ½\u1acf", "™\u0897™ \u0897", "\U000113d1½ \U00011a3a½"]


def awkward_letters(rng, n):
    """Strings of what charsmaps replace, with marks, joiners and line ends beside it."""
    pool = [c for rule in RULES for s in rule for c in s] + list("ab \n\r\u0301\u0308\u0323\u200d\ufe0f") + [
        "\r\n", "\u0600", "\u0903", "क", "\u094d", "\u093c", "क्ष", "ส", "\u0e33", "👩", "❤", "\U0001f1ea", "\u1100", "\u1161", "\u11a8",
        "ﾞ", "゛", "\U0001f3fd", "\u0d4e", "\u1f71", "ſ", "Ω", "ϓ", "㍿", "㌔", "\x00", "\u00ad", "ﬀ", "\u0340", "`", "``"]
    # Clusters of five and of six bytes, a longer string of the map, and a first character that vanishes or
    # becomes two words.
    out = ["™\ufe0f ½\u0301 a", "™\u0301\u0301 a™\u0301a", "\u2126\u0301", "\x01\x01ab c", "¨x y", "ﬁ\u0301x ﬁx",
           "\r\n\r a", "e\u0301 e\u0301\u0301"]
    out += ["".join(rng.choice(pool) for _ in range(rng.randrange(1, 9))) for _ in range(n)]
    return out[:n]
