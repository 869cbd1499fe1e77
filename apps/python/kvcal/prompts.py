"""Prompt records (schemas/prompts.v1.schema.json) as what a transformers model is given."""

import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Tuple

import torch

from kvcal.kvstats import StatisticsError
from kvcal.sequences import TEXT

OTHER = 0  # the kind of a chat's tokens: whose message one belongs to is not told
_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant",
          "function": "tool", "observation": "tool"}
_CONTENT = ("text", "messages", "conversations", "prompt", "input_ids")


@dataclass
class Prompt:
    id: str
    canonical: str  # JSON of its content
    record: Dict[str, Any]
    source: str  # "file:line"
    inputs: Dict[str, Any] = field(default_factory=dict)  # arguments of a forward pass, on the host

    @property
    def kind(self) -> int:
        return OTHER if "messages" in self.record else TEXT


def _records(path: Path) -> Iterator[Tuple[str, Any]]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StatisticsError(f"'{path}': {error.strerror if isinstance(error, OSError) else 'is not UTF-8'}") from None
    if path.suffix == ".txt":
        yield str(path), {"text": text.removesuffix("\n")}
        return
    lines = [(f"{path}:{n}", line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    for source, part in [(str(path), text)] if path.suffix == ".json" else lines:
        try:
            value = json.loads(part)
        except json.JSONDecodeError as error:
            raise StatisticsError(f"{source}: {error}") from None
        yield from ((source, record) for record in (value if isinstance(value, list) else [value]))


def _content(source: str, record: Any) -> Dict[str, Any]:
    """Text, messages (with tools) or input_ids."""
    found = [key for key in _CONTENT if isinstance(record, dict) and record.get(key) is not None]
    if len(found) != 1:
        raise StatisticsError(f"{source}: has {' and '.join(found) or 'no content'}, expected one of {', '.join(_CONTENT)}")
    if record.get("embeddings") or record.get("weight", 1) != 1:
        raise StatisticsError(f"{source}: embeddings and weights of prompts are for kvcal calibrate alone")
    if found[0] == "prompt":
        return {"text": record["prompt"] + (record.get("completion") or "")}
    if found[0] == "conversations":
        turns = [{"role": turn.get("role") or turn["from"], "content": turn.get("content") or turn.get("value", "")}
                 for turn in record["conversations"]]
        system = [{"role": "system", "content": record["system"]}] if record.get("system") else []
        messages = system + [{**turn, "role": _ROLES.get(turn["role"], turn["role"])} for turn in turns]
    elif found[0] == "messages":
        messages = record["messages"]
    else:
        return {found[0]: record[found[0]]}
    return {"messages": messages, **({"tools": record["tools"]} if record.get("tools") else {})}


def read_prompts(paths: Iterable[str]) -> List[Prompt]:
    """Sorted by id; ids that are not given are made of the content. Raises StatisticsError, naming file and line."""
    prompts: Dict[str, Prompt] = {}
    for path in paths:
        for source, record in _records(Path(path)):
            content = _content(source, record)
            canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            name = base = record.get("id") or hashlib.sha256(canonical.encode()).hexdigest()[:16]
            repeat = 1
            while name in prompts:
                repeat += 1
                name = f"{base}#{repeat}"
            prompts[name] = Prompt(name, canonical, {**content, "tags": record.get("tags") or []}, source)
    if not prompts:
        raise StatisticsError("there is no prompt")
    return [prompts[name] for name in sorted(prompts, key=str.encode)]


def has_media(prompt: Prompt) -> bool:
    """Images, videos or sounds, which a processor reads."""
    contents = [message.get("content") for message in prompt.record.get("messages", ())]
    return any(part.get("type") != "text" for content in contents if isinstance(content, list) for part in content)


def tokenize(prompts: Sequence[Prompt], processor: Callable[[], Any], max_length: int) -> None:
    """Fills in `inputs`. `processor()` gives the model's, or its tokenizer; it is not asked for token ids."""
    for prompt in prompts:
        try:
            inputs = _inputs(prompt, processor)
        except (ValueError, KeyError, TypeError, OSError, ImportError) as error:
            raise StatisticsError(f"{prompt.source}: {str(error).splitlines()[0]}") from None
        ids = torch.as_tensor(inputs["input_ids"]).reshape(1, -1)
        if ids.numel() == 0:
            raise StatisticsError(f"{prompt.source}: has no tokens")
        if has_media(prompt):
            if ids.numel() > max_length > 0:
                raise StatisticsError(f"{prompt.source}: has {ids.numel()} tokens, more than --max-length {max_length}, and "
                                      "images cannot be truncated")
            prompt.inputs = {**inputs, "input_ids": ids}
        else:
            prompt.inputs = {"input_ids": ids[:, :max_length] if max_length > 0 else ids}


def _inputs(prompt: Prompt, processor: Callable[[], Any]) -> Dict[str, Any]:
    record = prompt.record
    if "input_ids" in record:
        return {"input_ids": record["input_ids"]}
    if "text" in record:
        reader = processor()
        return {"input_ids": getattr(reader, "tokenizer", reader)(record["text"])["input_ids"]}
    answer_follows = record["messages"][-1].get("role") != "assistant"
    return dict(processor().apply_chat_template(record["messages"], tools=record.get("tools"), tokenize=True, return_dict=True,
                                                return_tensors="pt", add_generation_prompt=answer_follows))
