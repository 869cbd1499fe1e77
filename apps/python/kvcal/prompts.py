"""Prompt records (schemas/prompts.v1.schema.json) as what a transformers model is given."""

import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Set, Tuple

import torch

from kvcal.kvstats import StatisticsError
from kvcal.sequences import TEXT

OTHER = 0  # the kind of a chat's tokens: whose message one belongs to is not told
_ROLES = {"human": "user", "prompter": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant",
          "bard": "assistant", "model": "assistant", "bot": "assistant", "ai": "assistant", "function_call": "assistant",
          "function": "tool", "observation": "tool", "tool_response": "tool"}
_CHATS = ("messages", "conversations", "conversation")
_CONTENT = ("text", "prompt", "input_ids")


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
    whole = path.suffix == ".json" or text.lstrip("\ufeff \t\r\n").startswith("[")
    lines = [(f"{path}:{n}", line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    try:
        parts = [(str(path), json.loads(text))] if whole else None
    except json.JSONDecodeError:  # perhaps JSON lines all the same
        parts = None
    for source, value in parts or ((source, _parsed(source, line)) for source, line in lines):
        yield from ((source, record) for record in (value if isinstance(value, list) else [value]))


def _parsed(source: str, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise StatisticsError(f"{source}: {error}") from None


def _request(record: Any) -> Any:
    """The record, or the request in a line of a batch file or log."""
    if isinstance(record, dict) and not any(record.get(key) is not None for key in (*_CHATS, *_CONTENT, "instruction")):
        for key in ("body", "request"):
            if isinstance(record.get(key), dict):
                return _request(record[key])
    return record


def _turns(turn: Dict[str, Any], own: bool) -> List[Dict[str, Any]]:
    if turn.get("role") is None and turn.get("from") is None:
        return [{"role": _ROLES.get(key.lower(), key.lower()), "content": said} for key, said in turn.items()]
    name = turn.get("role") if turn.get("role") is not None else turn["from"]
    kept = own and turn.get("role") is not None
    role = name if kept and name in ("model", "function", "bot", "ai", "function_call") else _ROLES.get(name.lower(), name)
    content = next((turn[key] for key in ("content", "value", "text") if turn.get(key) is not None), None)
    return [{**(turn if kept else {}), "role": role, "content": content}]


def _chat(record: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The messages of a chat in any of its shapes; none where the record has no chat."""
    found = [key for key in _CHATS if record.get(key) is not None]
    if isinstance(record.get("prompt"), list) and not found:
        found, listed = ["prompt"], record["prompt"] + (record.get("completion") or [])
    elif found:
        listed = record[found[0]]
    elif record.get("instruction") is not None and not any(record.get(key) is not None for key in _CONTENT):
        said = record["instruction"], record.get("input") or record.get("context")
        reply = record.get("output") or record.get("response")
        listed = [turn for pair in record.get("history") or [] for turn in ({"user": pair[0]}, {"assistant": pair[1]})]
        listed += [{"user": "\n".join(filter(None, said))}] + ([{"assistant": reply}] if reply else [])
    else:
        return []
    messages = [message for turn in listed for message in _turns(turn, found in (["messages"], ["prompt"]))]
    if record.get("system") and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": record["system"]})
    return messages


def _content(source: str, record: Any) -> Dict[str, Any]:
    """Text, messages (with tools) or input_ids."""
    if isinstance(record, str):
        return {"text": record}
    outer, record = record, _request(record)
    if not isinstance(record, dict):
        raise StatisticsError(f"{source}: is no object and no text")
    if record.get("embeddings") or outer.get("weight", 1) != 1:
        raise StatisticsError(f"{source}: embeddings and weights of prompts are for kvcal calibrate alone")
    try:
        messages = _chat(record)
        tools = json.loads(record["tools"]) if isinstance(record.get("tools"), str) and record["tools"] else record.get("tools")
    except (KeyError, TypeError, AttributeError, IndexError, json.JSONDecodeError) as error:
        raise StatisticsError(f"{source}: the chat cannot be read ({type(error).__name__}: {error})") from None
    if messages:
        return {"messages": messages, **({"tools": tools} if tools else {})}
    found = [key for key in _CONTENT if record.get(key) is not None]
    if len(found) != 1:
        raise StatisticsError(f"{source}: has {' and '.join(found) or 'no content'}, expected a chat or one of "
                              f"{', '.join(_CONTENT)}")
    if found[0] == "prompt":
        return {"text": record["prompt"] + (record.get("completion") or "")}
    return {found[0]: record[found[0]]}


def read_prompts(paths: Iterable[str]) -> List[Prompt]:
    """Sorted by id; ids that are not given are made of the content. Raises StatisticsError, naming file and line."""
    read: List[Tuple[str, Prompt]] = []
    contents: Dict[str, Set[str]] = {}
    for path in paths:
        for source, record in _records(Path(path)):
            content = _content(source, record)
            canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            named = record if isinstance(record, dict) else {}
            given = str(named["id"]) if named.get("id") not in (None, "") else ""
            read.append((given, Prompt("", canonical, {**content, "tags": named.get("tags") or []}, source)))
            contents.setdefault(given, set()).add(canonical)
    prompts: Dict[str, Prompt] = {}
    for given, prompt in read:
        digest = hashlib.sha256(prompt.canonical.encode()).hexdigest()[:16]
        # Of an id with several contents these make the difference, so that the order does not matter.
        name = base = f"{given}#{digest}" if given and len(contents[given]) > 1 else given or digest
        repeat = 1
        while name in prompts:
            repeat += 1
            name = f"{base}#{repeat}"
        prompt.id = name
        prompts[name] = prompt
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
