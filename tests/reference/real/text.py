"""Chats of the shipped prompt set as ids, ends of turns as the model's own template writes them."""
import json
from pathlib import Path

from tokenizers import Tokenizer

PROMPTS = Path(__file__).resolve().parents[3] / "datasets" / "default.jsonl"
SYSTEM = {"role": "system", "content": "You are a helpful AI assistant named SmolLM, trained by Hugging Face"}


def rendered(messages):
    if messages[0]["role"] != "system":
        messages = [SYSTEM, *messages]
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)


def chats(folder, wanted, longest):
    """Ids of every seventh chat that is plain text, cut at `longest`, until there are `wanted` tokens."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    records = [json.loads(line) for line in PROMPTS.read_text().splitlines()]
    plain = [r["messages"] for r in records
             if r.get("messages") and all(isinstance(m.get("content"), str) for m in r["messages"])]
    chosen = []
    for messages in plain[3::7]:
        ids = tokenizer.encode(rendered(messages), add_special_tokens=False).ids[:longest]
        chosen.append(ids[:wanted - sum(map(len, chosen))])
        if sum(map(len, chosen)) >= wanted:
            return chosen
    return chosen
