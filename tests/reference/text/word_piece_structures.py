"""Small WordPiece tokenizers: BERT's and ones with other options. Each entry returns a `tokenizers.Tokenizer`."""

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from structures import CORPUS, _bos

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def _train(normalizer, pre, prefix="##", **model):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix, **model))
    tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    # Only the first lines: rare characters must be unknown.
    tok.train_from_iterator(CORPUS[:4], trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=_SPECIAL, continuing_subword_prefix=prefix, show_progress=False))
    return tok


def word_piece_bert():
    tok = _train(normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())
    tok.decoder = decoders.WordPiece()
    tok.post_processor = _bos(tok, "[CLS]", "[SEP]")
    return tok


def word_piece_cased():
    tok = _train(normalizers.BertNormalizer(handle_chinese_chars=False, lowercase=False, clean_text=False),
                 pre_tokenizers.BertPreTokenizer(), max_input_chars_per_word=6)
    tok.decoder = decoders.WordPiece(cleanup=False)
    tok.add_tokens([AddedToken("<s>", normalized=True), AddedToken("don't", normalized=False)])
    return tok


def word_piece_no_prefix():
    """Every token may go on, and words are what white space leaves."""
    tok = _train(normalizers.BertNormalizer(strip_accents=True, lowercase=False), pre_tokenizers.WhitespaceSplit(), prefix="")
    tok.decoder = decoders.Sequence([decoders.WordPiece(prefix="e", cleanup=True), decoders.Fuse()])
    return tok


WORD_PIECE_STRUCTURES = {f.__name__: f for f in (word_piece_bert, word_piece_cased, word_piece_no_prefix)}
