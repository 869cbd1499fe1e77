"""Writes the demo model's prompt sets: prompts.jsonl for calibration, questions.jsonl for checking its answers.

    python make_prompts.py FOLDER

Both are drawn from the generator of the training data with seeds of their own. The prompt set covers every skill, in
chats of several turns as in training, so that the ranges measured on it are those of real use; a few end with the
user's turn. The questions are of the held-out kind (sums and two-step problems that training never saw).
"""

import argparse
import json
from pathlib import Path
from random import Random

import chats

PROMPT_SEED, QUESTION_SEED = 2026, 11
ARITHMETIC = chats.Phase(0, 0, 2, 1, (3, 3), 0)
# name, number of chats, what they are about, token budget
PARTS = (
    ("facts", 18, chats.hard_phase(1, 0), 230),
    ("lines", 14, chats.hard_phase(0, 1), 230),
    ("short", 8, chats.EASY, 120),
    ("arithmetic", 8, ARITHMETIC, 200),
)
OPEN_PARTS = (("open-facts", 4, chats.hard_phase(1, 0), 60), ("open-lines", 4, chats.hard_phase(0, 1), 60),
              ("open-arithmetic", 2, ARITHMETIC, 20))
QUESTIONS = {"recall 4": 3, "recall 8": 4, "recall 16": 3, "copy 2": 3, "copy 4": 3, "mul": 2, "add": 3, "two-step": 3}


def messages(turns: list[chats.Turn], answered: bool) -> list[dict]:
    spoken = [{"role": role, "content": content}
              for turn in turns for role, content in zip(("user", "assistant"), turn)]
    return spoken if answered else spoken[:-1]


def prompt_set() -> list[dict]:
    r = Random(PROMPT_SEED)
    return [{"id": f"{name}-{i + 1:02d}", "messages": messages(chats.sample_turns(r, budget, phase), parts is PARTS)}
            for parts in (PARTS, OPEN_PARTS) for name, n, phase, budget in parts for i in range(n)]


def questions() -> list[dict]:
    tests = chats.held_out_tests(30, QUESTION_SEED)
    r = Random(QUESTION_SEED)
    return [{"id": f"{skill.replace(' ', '-')}-{i + 1}", "messages": messages([turn], answered=False), "tags": [skill],
             "expect": turn[1]}
            for skill, n in QUESTIONS.items() for i, turn in enumerate(r.sample(tests[skill], n))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    for name, records in (("prompts", prompt_set()), ("questions", questions())):
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (options.folder / f"{name}.jsonl").write_text(lines)


if __name__ == "__main__":
    main()
