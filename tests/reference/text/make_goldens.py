#!/usr/bin/env python3
"""Writes tests/unit/data/text/: what the reference libraries do with our tokenizers and templates.

    python tests/reference/text/make_goldens.py

Needs tokenizers, transformers, sentencepiece, protobuf and jinja2 (their versions stand in the files). Never imports or runs kvcal.
"""

import json
import pathlib
import random
import sys

import jinja2
import sentencepiece
import tokenizers
import transformers
from tokenizers import Regex, normalizers, pre_tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from folders import folder_goldens  # noqa: E402
from reference import render, render_chat  # noqa: E402
from random_structures import random_structure  # noqa: E402
from structures import STRUCTURES, strings  # noqa: E402
from unigram_structures import UNIGRAM_STRUCTURES, YOUNG_MARKS, awkward_letters, random_unigram  # noqa: E402
from word_piece_structures import WORD_PIECE_STRUCTURES  # noqa: E402
from templates import CHATS, CONSTRUCTS, DATE, SHAPES, SPECIAL  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parents[2] / "unit" / "data" / "text"
VERSIONS = {m.__name__: m.__version__ for m in (tokenizers, transformers, jinja2)}
UNIGRAM_VERSIONS = VERSIONS | {"sentencepiece": sentencepiece.__version__}
N_STRINGS = 40
N_RANDOM = 12


def dump(name, value):
    path = OUT / name
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    return path.stat().st_size


def tokenizer_golden(tok, texts, versions=VERSIONS):
    cases = []
    for text in texts:
        ids = tok.encode(text, add_special_tokens=True).ids
        plain = tok.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False)}
        if plain != ids:
            case["plain"] = plain
        without = tok.decode(ids, skip_special_tokens=True)
        if without != case["decoded"]:
            case["decoded_without_special"] = without
        cases.append(case)
    return {"made_by": versions, "tokenizer": json.loads(tok.to_str()), "cases": cases}


def unigram_goldens():
    """By name, each with the text that it was read from: the library writes other scores than it has read."""
    texts = {name: make() for name, make in UNIGRAM_STRUCTURES.items()}
    for i in range(N_RANDOM):
        texts[f"unigram_random_{i}"] = random_unigram(random.Random(f"unigram golden {i}"))
    goldens = {}
    for name, text in texts.items():
        rng = random.Random(name)
        cases = strings(rng, N_STRINGS // 2) + awkward_letters(rng, N_STRINGS // 2)
        cases += YOUNG_MARKS if name in UNIGRAM_STRUCTURES else []
        golden = tokenizer_golden(tokenizers.Tokenizer.from_str(text), cases, UNIGRAM_VERSIONS)
        goldens[name] = golden | {"tokenizer": json.loads(text)}
    return goldens


def normal_form_goldens():
    """Marks of every age, alone and between others: the reference's tables know those of Unicode 9 and before."""
    marks = ["\u0301", "\u0323", "\u0345", "\u3099", "\u0898", "\u08ca", "\u1abf", "\u1aca", "\u1ace", "\u1df6", "\u0c3c",
             "\U00010efd", "\U00011938", "\U00011935\U00011930", "\U0001e08f", "\U0001e4ef", "\U00016ff0", "\u0f72\u0f71"]
    letters = ["a", "e", "\u00e9", "\u1e69", "\ufb01", "\u304b", "\u1100\u1161", "\u32ff", "\U0001f16c"]
    rng = random.Random("normal forms")
    texts = ["a" + m + n for m in marks for n in marks[:3]] + ["\u0300" + m for m in marks]
    texts += ["".join(rng.choice(letters if rng.random() < 0.3 else marks) for _ in range(8)) for _ in range(40)]
    forms = {"NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD()}
    return [{"text": t} | {name: form.normalize_str(t) for name, form in forms.items()} for t in texts]


def regex_class_goldens():
    """Which of some characters a class of a pattern matches. None is younger than Unicode 14."""
    characters = "".join(map(chr, range(0x20, 0x7F))) + "\t\u00a3\u00ac\u00b1\u00d7\u00a8\u00b4\u00b8\u00a7\u00b6\u20ac\u2122\u2190\u2200\u2500\u2605\u00ab\u2014\u3001\u00e9\u0660\U0001f600\U0001d7ce\u0301\u200b"
    patterns = ["[[:punct:]]", "[[:^punct:]]", "[^[:punct:]]", "[a[:punct:]b]", "[a-c[:punct:]&&[^$]]", "[][:punct:]]",
                "[^][:punct:]]", "[\\][:punct:]]", "\\[[:punct:]]", "[:punct:]", "[[:punct:][:digit:]]", "(?P)[[:punct:]]",
                "(?i)[[:punct:]]", "[[:punct]]", "[x[^[:punct:]]]", "(?#[)[:punct:]", "[[:alpha:]]", "\\p{Punct}", "[^\\s[:punct:]]"]
    cases = []
    for p in patterns:
        split = pre_tokenizers.Split(Regex(p), "removed")
        cases.append({"pattern": p, "matched": "".join(c for c in characters if not split.pre_tokenize_str(c))})
    return {"made_by": VERSIONS, "characters": characters, "cases": cases}


def template_goldens():
    cases = []
    for name, template, variables in CONSTRUCTS:
        text, error = render(template, variables)
        case = {"name": name, "template": template}
        case.update({"text": text} if error is None else {"error": error})
        if name == "for_recursive":
            case["variables"] = variables
        cases.append(case)
    return {"made_by": VERSIONS, "date": DATE, "variables": CONSTRUCTS[0][2] | {"a": 0, "b": 1}, "cases": cases}


def chat_goldens():
    cases = []
    for shape, template in SHAPES.items():
        for chat, messages, tools, generate, extra in CHATS:
            text, error = render_chat(template, messages, tools, generate, extra)
            cases.append({"shape": shape, "chat": chat} | ({"text": text} if error is None else {"error": error}))
    chats = {name: {"messages": m, "tools": t, "add_generation_prompt": g, "extra": x} for name, m, t, g, x in CHATS}
    return {"made_by": VERSIONS, "date": DATE, "special": SPECIAL, "shapes": SHAPES, "chats": chats, "cases": cases}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.json"):
        old.unlink()
    total = sum(dump(f"tokenizer_{name}.json", tokenizer_golden(make(), strings(random.Random(name), N_STRINGS)))
                for name, make in (STRUCTURES | WORD_PIECE_STRUCTURES).items())
    for i in range(N_RANDOM):
        json_text = json.dumps(random_structure(random.Random(f"golden {i}")))
        total += dump(f"tokenizer_random_{i}.json",
                      tokenizer_golden(tokenizers.Tokenizer.from_str(json_text),
                                       strings(random.Random(f"random_{i}"), 15)))
    total += sum(dump(f"tokenizer_{name}.json", golden) for name, golden in unigram_goldens().items())
    total += dump("folders.json", {"made_by": VERSIONS, "cases": folder_goldens()})
    total += dump("normal_forms.json", {"made_by": VERSIONS, "cases": normal_form_goldens()})
    total += dump("regex_classes.json", regex_class_goldens())
    total += dump("templates.json", template_goldens()) + dump("chats.json", chat_goldens())
    print(f"{total} bytes in {OUT}")


if __name__ == "__main__":
    main()
