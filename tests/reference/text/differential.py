#!/usr/bin/env python3
"""Compares kvcal's tokenizers and templates with the reference libraries on many generated inputs.

    make test-text-reference [STRINGS=20000] [TEMPLATES=2000]
    python tests/reference/text/differential.py DRIVER [strings per structure, default 20000] [templates, default 2000]

DRIVER is driver.cpp of this folder, built. Prints a table; exits 1 when anything differs. Not counted as differences:
templates that print an object's address, a class or Markup's repr, slices of numbers and dicts (the reference folds
constants before it complains), d[], dict views compared as sets, and texts on which the reference itself panics.
"""

import copy
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from random_structures import random_structure  # noqa: E402
from random_templates import expression, random_template  # noqa: E402
from reference import render  # noqa: E402
from structures import STRUCTURES, strings  # noqa: E402
from unigram_structures import (UNIGRAM_STRUCTURES, YOUNG_MARKS, awkward_letters, bare_unigram,  # noqa: E402
                                charsmap_document, random_unigram)
from word_piece_structures import WORD_PIECE_STRUCTURES  # noqa: E402
from templates import CHATS, CONSTRUCTS, D, L, M, SHAPES  # noqa: E402


def ask(driver, arguments, requests):
    done = subprocess.run([driver, *arguments], input="\n".join(json.dumps(r) for r in requests) + "\n", text=True,
                          capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def expected_answer(tok, text):
    """An error where the reference refuses the text, None where it panics."""
    try:
        ids = tok.encode(text, add_special_tokens=True).ids
        return {"ids": ids, "plain": tok.encode(text, add_special_tokens=False).ids,
                "decoded": tok.decode(ids, skip_special_tokens=False),
                "without_special": tok.decode(ids, skip_special_tokens=True)}
    except Exception as e:
        return {"error": str(e)}
    except BaseException as e:  # Rust's panics are no Exception
        if isinstance(e, KeyboardInterrupt):
            raise
        return None


def differences(driver, name, tok, texts, document=None):
    """`document`: the tokenizer.json that the tokenizer was read from, where it would be written otherwise."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(document or tok.to_str())
        file.flush()
        answers = ask(driver, ["tokenizer", file.name], texts)
    different = 0
    for text, got in zip(texts, answers, strict=True):
        expected = expected_answer(tok, text)
        if expected is None or got == expected or ("error" in got and "error" in expected):
            continue
        different += 1
        if different <= 3:
            print(name, ascii(text), {k: (v, got.get(k)) for k, v in expected.items() if v != got.get(k)})
    return different


def row(name, n, what, different):
    print(f"{name:<36}{n:>8} {what:<12}{different:>6}", flush=True)
    return different


def compare_structure(driver, name, make, n):
    texts = strings(random.Random(f"differential {name}"), n)
    return row(name, n, "strings", differences(driver, name, make(), texts))


def compare_random_structures(driver, n_structures, n):
    different = 0
    for i in range(n_structures):
        rng = random.Random(f"random structure {i}")
        tok = Tokenizer.from_str(json.dumps(random_structure(rng)))
        different += differences(driver, f"random structure {i}", tok, strings(rng, n))
    return row(f"{n_structures} random structures", n_structures * n, "strings", different)


def compare_document(driver, name, document, texts):
    return differences(driver, name, Tokenizer.from_str(document), texts, document)


def compare_unigram(driver, name, n):
    rng = random.Random(f"differential {name}")
    texts = strings(rng, n) + awkward_letters(rng, n // 4)
    return row(name, len(texts), "strings", compare_document(driver, name, UNIGRAM_STRUCTURES[name](), texts))


def compare_random_unigram(driver, n_structures, n):
    """Random structures around random models, and such models alone; also on strings of their own pieces."""
    different = n_texts = 0
    for i in range(n_structures):
        rng = random.Random(f"random unigram {i}")
        document = (random_unigram if i % 2 else bare_unigram)(rng)
        pieces = [piece for piece, _ in json.loads(document)["model"]["vocab"]]
        texts = strings(rng, n) + ["".join(rng.choices(pieces, k=12)) for _ in range(n)] + awkward_letters(rng, n // 4)
        texts += ["".join(piece * rng.randrange(1, 9) for piece in rng.choices(pieces, k=3)) for _ in range(n // 4)]
        n_texts += len(texts)
        different += compare_document(driver, f"random unigram {i}", document, texts)
    return row(f"{n_structures} random Unigram structures", n_texts, "strings", different)


def compare_charsmaps(driver, n):
    different = 0
    rules = ("rules", "nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf")
    for rule in rules:
        rng = random.Random(f"charsmap {rule}")
        texts = strings(rng, n) + awkward_letters(rng, n) + YOUNG_MARKS
        different += compare_document(driver, rule, charsmap_document(rule), texts)
    return row(f"{len(rules)} charsmaps", len(rules) * 2 * n, "strings", different)


_NORMALIZERS = (normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase,
                normalizers.StripAccents, normalizers.Nmt, normalizers.BertNormalizer)


def compare_code_points(driver, n):
    """Every nth code point under every normalizer, alone and between marks that it may have to change places with."""
    codes = [c for c in range(1, 0x110000, n) if not 0xD800 <= c < 0xE000 and not 0x20000 < c < 0x2F800
             and not 0x2FA20 < c < 0xE0000 and c < 0xE01F0]
    forms = ("{0}", "\u0301{0}\u0334", "\u0345{0}a\u0334{0}\u0301", "a{0}\u0323")
    texts = ["-".join(form.format(chr(c)) for c in codes[i:i + 16] for form in forms) for i in range(0, len(codes), 16)]
    different = 0
    for make in _NORMALIZERS:
        tok = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))},
                                   merges=[]))
        tok.normalizer = make()
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tok.decoder = decoders.ByteLevel()
        different += differences(driver, make.__name__, tok, texts)
    return row(f"{len(_NORMALIZERS)} normalizers", len(codes) * len(_NORMALIZERS), "code points", different)


def mutated_templates(n):
    """Constructs and shapes with pieces inserted, removed and exchanged: most are broken, many still run."""
    rng = random.Random("templates")
    pool = [t for _, t, _ in CONSTRUCTS] + list(SHAPES.values())
    pieces = sum((re.findall(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|[^{]+", t, flags=re.S) for t in pool), [])
    signs = ["{%", "%}", "{{", "}}", "-%}", "{%-", "|", "(", ")", "[", "]", "{", "}", ".", "'", "if", "for", "in", "is",
             "not", "loop", "m", "l", "d", "set", "endfor", "endif", "else", "~", "**", "-1", "none", "\n", " "]
    for i in range(n):
        t = rng.choice(pool)
        for _ in range(rng.randrange(1, 4)):
            p = rng.randrange(len(t) + 1)
            t = rng.choice([t[:p] + rng.choice(signs) + t[p:], t[:p] + t[p + rng.randrange(1, 10):],
                            t[:p] + rng.choice(pieces) + t[p:]])
        yield {"template": t[:6000], "variables": {"a": 0, "b": 1, "d": D, "l": L, "m": M,
                                                   "messages": CHATS[i % len(CHATS)][1], "tools": None}}


def random_programs(n):
    rng = random.Random("programs")
    for i in range(n):
        template = random_template(rng) if i % 2 else "{{ " + expression(rng) + " }}"
        yield {"template": template, "variables": {"a": 0, "b": 1, "d": D, "l": L, "m": M, "messages": CHATS[2][1],
                                                   "tools": None}}


_REFUSED = re.compile(r"cannot be sliced|expected an expression in \[\]|between 'dict_(items|keys)'")
_UNCOMPARABLE = re.compile(r" at 0x[0-9a-f]+>|<built-in|<class|Markup\(|range\(\d")


def alike(text, error, got):
    if got.get("text") == text or _UNCOMPARABLE.search(text or ""):
        return True
    return bool(_REFUSED.search(got.get("error", "")))


def compare_templates(driver, name, requests):
    requests = list(requests)
    different = rendered = 0
    for request, got in zip(requests, ask(driver, ["template"], requests), strict=True):
        text, error = render(request["template"], copy.deepcopy(request["variables"]))
        rendered += text is not None
        if alike(text, error, got):
            continue
        different += 1
        if different <= 10:
            print(ascii(request["template"])[:400], ascii(text), error, ascii(got))
    return row(f"{name} ({rendered} render)", len(requests), "templates", different)


def main():
    warnings.simplefilter("ignore")  # Python's own, about the generated code
    driver = sys.argv[1]
    n_strings = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    n_templates = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    different = sum(compare_structure(driver, name, make, n_strings)
                    for name, make in (STRUCTURES | WORD_PIECE_STRUCTURES).items())
    different += sum(compare_unigram(driver, name, n_strings) for name in UNIGRAM_STRUCTURES)
    different += compare_random_unigram(driver, 400, max(n_strings // 200, 1))
    different += compare_charsmaps(driver, n_strings // 2)
    different += compare_code_points(driver, max(2000 // n_strings, 1))
    different += compare_random_structures(driver, 400, max(n_strings // 200, 1))
    different += compare_templates(driver, "mutated templates", mutated_templates(n_templates))
    different += compare_templates(driver, "random programs", random_programs(n_templates * 5))
    print(f"{different} differences")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
