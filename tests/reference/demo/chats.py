"""Seeded synthetic chats of the demo model, and its tokenizer. Nothing is downloaded.

The skills are facts ("How many figs has Bo?"), lines ("Recite line B."), the multiplication table, sums, and two-step
problems. The order of the random draws is part of the recipe: the same seed gives the same training data.
"""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from random import Random

NAMES = ("Ana Bo Cy Dan Eve Fay Gus Hal Ida Jan Kim Leo Max Ned Ola Pia Quin Ray Sam Tom Una Vic Wes Xu Yan Zoe "
         "Amy Ben Lia Mia Nia Ron").split()
ITEMS = ("pears figs plums limes nuts eggs pies cups hats pens keys rings coins shells stones bells balls boats "
         "kites drums lamps ropes boxes books cards seeds roses tents chairs plates spoons maps").split()
WORDS = ("moon sun star rain wind fog ice fire sand rock hill lake sea river bay tree leaf oak pine moss fern wolf bear "
         "fox hare owl crow hawk swan frog toad bee ant cat dog cow goat ram hen duck red blue green gold gray pink black "
         "white iron tin silk wool salt milk bread rice soup tea boat ship road gate door wall roof bell").split()
LABELS = "ABCD"
IM_START, IM_END, END_OF_TEXT = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
# Qwen3.5's pre-tokenizer: words with their marks, single digits, runs of punctuation, line breaks
PRE_TOKENIZER = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
                 r"\s*[\r\n]+|\s+(?!\S)|\s+")

Turn = tuple[str, str]  # question, answer


# ------------------------------------------------------------------------------------------------ questions
def is_held_out(problem: str) -> bool:
    """One tenth of the sums and two-step problems is never trained on; it is the test."""
    return zlib.crc32(problem.encode()) % 10 == 0


def product(a: int, b: int) -> Turn:
    return f"What is {a} * {b}?", f"{a * b}"


def ask_sum(r: Random, held_out: bool = False) -> Turn:
    """A sum; in training also, three times in ten, an entry of the multiplication table (all of it is trained)."""
    while True:
        if r.random() < 0.3 and not held_out:
            return product(r.randint(1, 9), r.randint(1, 9))
        a, b = r.randint(1, 90), r.randint(1, 9)
        if is_held_out(f"{a} + {b}") == held_out:
            return f"What is {a} + {b}?", f"{a + b}"


def ask_two_steps(r: Random, held_out: bool = False) -> Turn:
    while True:
        a, b, c, _ = (r.randint(1, 9) for _ in range(4))  # the fourth draw keeps the seeded stream of the recipe
        x, problem = a * b, f"{a} * {b} + {c}"
        if x + c > 99 or is_held_out(problem) != held_out or (not held_out and is_held_out(f"{x} + {c}")):
            continue
        return f"What is {problem}?", f"{a} * {b} = {x}. {x} + {c} = {x + c}."


def make_facts(r: Random, n: int) -> tuple[list, str]:
    """n facts (name, number, item) and the text that states them."""
    names, items = r.sample(NAMES, n), r.sample(ITEMS, n)
    facts = list(zip(names, r.sample(range(2, 100), n), items))
    return facts, "Facts: " + " ".join(f"{name} has {number} {item}." for name, number, item in facts)


def ask_fact(r: Random, facts: list) -> Turn:
    """The answer recites the fact. A bare number, seven tokens after the name in the context, is not learnt in the same
    budget; met again token by token, it is learnt at once."""
    name, number, item = r.choice(facts)
    by_count = r.choice(("count", "count", "what")) == "count"
    question = f"How many {item} has {name}?" if by_count else f"What has {name}?"
    return question, f"Facts: {name} has {number} {item}."


def make_lines(r: Random, n: int, shortest: int, longest: int) -> tuple[list, str]:
    """n labelled lines of words, no word twice, and the text that states them."""
    words = r.sample(WORDS, len(WORDS))
    lines = []
    for label in LABELS[:n]:
        m = r.randint(shortest, longest)
        lines.append((label, words[:m]))
        words = words[m:]
    return lines, "Lines:" + "".join(f"\n{label}: " + " ".join(row) for label, row in lines)


def ask_line(r: Random, lines: list) -> Turn:
    label, row = r.choice(lines)
    return f"Recite line {label}.", f"{label}: " + " ".join(row)


# ------------------------------------------------------------------------------------------------ chats
@dataclass(frozen=True)
class Phase:
    """What the chats of one training phase look like."""

    facts_share: float  # of the chats: about facts
    lines_share: float  # of the chats: about lines; the rest has no context
    max_facts: int
    max_lines: int
    line_words: tuple[int, int]
    on_topic: float  # share of the turns that ask about the context


EASY = Phase(0.35, 0.5, 4, 2, (5, 11), 0.95)  # mostly copying long lines: this forms the induction heads


def hard_phase(facts_share: float, lines_share: float) -> Phase:
    """The full task."""
    return Phase(facts_share, lines_share, 16, 4, (3, 8), 0.8)


def sample_turns(r: Random, budget: int, phase: Phase) -> list[Turn]:
    """Turns of one chat whose estimated token count fills the budget; the context precedes the first question."""
    turns, used, context, context_text = [], 0, None, None
    u = r.random()
    kind = "none"
    if u < phase.facts_share:
        kind = "facts"
        context, context_text = make_facts(r, r.randint(2, phase.max_facts))
        used = 8 * len(context) + 3
    elif u < phase.facts_share + phase.lines_share:
        kind = "lines"
        context, context_text = make_lines(r, r.randint(1, phase.max_lines), *phase.line_words)
        used = sum(len(row) + 3 for _, row in context) + 3
    while True:
        v = r.random()
        if kind == "facts" and v < phase.on_topic:
            question, answer = ask_fact(r, context)
            cost = 28
        elif kind == "lines" and v < phase.on_topic:
            question, answer = ask_line(r, context)
            cost = 18 + answer.count(" ")
        elif v > 0.93 or (kind == "none" and v < 0.35):
            question, answer = ask_sum(r)
            cost = 22 + len(question.split())
        else:
            question, answer = ask_two_steps(r)
            cost = 44
        if turns and used + cost > budget:
            return turns
        used += cost
        if context_text:
            question, context_text = context_text + "\n" + question, None
        turns.append((question, answer))


def chat_text(turns: list[Turn]) -> str:
    return "".join(f"{IM_START}user\n{question}{IM_END}\n{IM_START}assistant\n{answer}{IM_END}\n"
                   for question, answer in turns)


def held_out_tests(n: int, seed: int) -> dict[str, list[Turn]]:
    """The questions behind the accuracy table: n of each skill, and the whole multiplication table."""
    r = Random(seed)
    tests = {}
    for count in (4, 8, 16):
        contexts = [make_facts(r, count) for _ in range(n)]
        tests[f"recall {count}"] = [on_context(text, ask_fact(r, facts)) for facts, text in contexts]
    for count, shortest, longest in ((2, 3, 5), (4, 5, 8)):
        contexts = [make_lines(r, count, shortest, longest) for _ in range(n)]
        tests[f"copy {count}"] = [on_context(text, ask_line(r, lines)) for lines, text in contexts]
    tests["mul"] = [product(a, b) for a in range(1, 10) for b in range(1, 10)]
    tests["add"] = [ask_sum(r, held_out=True) for _ in range(n)]
    tests["two-step"] = [ask_two_steps(r, held_out=True) for _ in range(n)]
    return tests


def on_context(context_text: str, turn: Turn) -> Turn:
    return context_text + "\n" + turn[0], turn[1]


# ------------------------------------------------------------------------------------------------ tokenizer
def build_tokenizer(folder: Path):
    """A byte-level BPE tokenizer in which every name, item and word is one token; writes its two files into folder."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PRE_TOKENIZER), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    words = [" " + word for word in NAMES + ITEMS + WORDS] * 20
    phrases = ["user", "assistant", "system", "\n", "How", " many", " has", "?", "What", " is", "Who", "It", "Facts", ":",
               " line", "Lines", "Recite", ".", " *", " +", " =", ":\n", " A", " B", " C", " D", "\n\n"] * 100
    tokenizer.train_from_iterator(words + phrases, trainers.BpeTrainer(
        vocab_size=1024, min_frequency=2, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False)
                                  for text in (END_OF_TEXT, IM_START, IM_END)])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "Qwen3_5Tokenizer", "add_prefix_space": False, "add_bos_token": False, "bos_token": None,
        "eos_token": IM_END, "pad_token": END_OF_TEXT, "unk_token": None, "clean_up_tokenization_spaces": False,
        "errors": "replace", "split_special_tokens": False, "model_max_length": 2048, "chat_template": CHAT_TEMPLATE},
        indent=1))
    return tokenizer


def answer_mask(tokenizer, ids: list[int]) -> list[bool]:
    """True on the tokens of every answer and the <|im_end|> that closes it."""
    opening = [tokenizer.token_to_id(IM_START), tokenizer.token_to_id("assistant"), *tokenizer.encode("\n").ids]
    closing = tokenizer.token_to_id(IM_END)
    mask, inside = [], False
    for i, token in enumerate(ids):
        inside = inside or ids[max(0, i - 3):i] == opening
        mask.append(inside)
        inside = inside and token != closing
    return mask
