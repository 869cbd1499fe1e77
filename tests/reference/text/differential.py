#!/usr/bin/env python3
"""Compares kvcal's tokenizers and templates with the reference libraries on many generated inputs.

    python tests/reference/text/differential.py DRIVER [strings per structure, default 20000] [templates, default 3000]

DRIVER is driver.cpp of this folder, built. Exits 1 when anything differs. Templates that print an object's address in the
reference (a method, a function, a generator) are refused here and not counted.
"""

import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from reference import render  # noqa: E402
from structures import STRUCTURES, strings  # noqa: E402
from templates import CHATS, CONSTRUCTS, D, L, M, SHAPES  # noqa: E402


def ask(driver, arguments, requests):
    done = subprocess.run([driver, *arguments], input="\n".join(json.dumps(r) for r in requests) + "\n", text=True,
                          capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def compare_structure(driver, name, n):
    tok = STRUCTURES[name]()
    texts = strings(random.Random(f"differential {name}"), n)
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(tok.to_str())
        file.flush()
        answers = ask(driver, ["tokenizer", file.name], texts)
    different = 0
    for text, got in zip(texts, answers, strict=True):
        ids = tok.encode(text, add_special_tokens=True).ids
        expected = {"ids": ids, "plain": tok.encode(text, add_special_tokens=False).ids,
                    "decoded": tok.decode(ids, skip_special_tokens=False),
                    "without_special": tok.decode(ids, skip_special_tokens=True)}
        if got != expected:
            different += 1
            if different <= 3:
                print(name, ascii(text), {k: (v, got[k]) for k, v in expected.items() if v != got[k]})
    print(f"{name}: {n} strings, {different} different")
    return different


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


def compare_templates(driver, n):
    requests = list(mutated_templates(n))
    different = 0
    for request, got in zip(requests, ask(driver, ["template"], requests), strict=True):
        text, error = render(request["template"], request["variables"])
        if got.get("text") == text or re.search(r" at 0x[0-9a-f]+>", text or ""):
            continue
        different += 1
        print(ascii(request["template"])[:400], ascii(text), error, ascii(got))
    print(f"templates: {n}, {different} different")
    return different


def main():
    driver = sys.argv[1]
    n_strings = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    n_templates = int(sys.argv[3]) if len(sys.argv) > 3 else 3000
    different = sum(compare_structure(driver, name, n_strings) for name in STRUCTURES)
    different += compare_templates(driver, n_templates)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
