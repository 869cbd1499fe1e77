"""Prompt records (schemas/prompts.v1.schema.json) as what a transformers model is given."""

import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from kvcal.kvstats import StatisticsError
from kvcal.sequences import TEXT

OTHER = 0  # the kind of a chat's tokens: whose message one belongs to is not told
_ROLES = {"human": "user", "prompter": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant",
          "bard": "assistant", "model": "assistant", "bot": "assistant", "ai": "assistant", "function_call": "assistant",
          "function": "tool", "observation": "tool", "tool_response": "tool"}
_SPEAKERS = {*_ROLES, "user", "assistant", "system", "developer", "tool"}
_CONTENT = ("text", "prompt", "input_ids")


class Shape(NamedTuple):
    """A row of the table in lib/prompts/record_shapes.cpp."""

    key: str
    said: str = "turns"  # or "first" and "in turn" (of texts), "text"
    sure: bool = False
    more: Tuple[str, ...] = ()
    reply: Tuple[str, ...] = ()
    system: Tuple[str, ...] = ("system",)
    needs: Tuple[str, ...] = ()
    without: Tuple[str, ...] = ()


_HALVES = ("choices", "options", "context", "passage", "article")
_SHAPES = (
    Shape("messages", sure=True), Shape("conversations", sure=True), Shape("conversation", sure=True),
    Shape("prompt", reply=("completion", "chosen")), Shape("chosen"),
    Shape("instruction", "text", True, ("input", "context"), ("output", "response")),
    Shape("items"), Shape("data", "in turn"), Shape("turns", "first"),
    Shape("contents", system=("systemInstruction", "system_instruction")),
    Shape("input", reply=("output",), system=("instructions",)),
    Shape("input", "text", reply=("output",), system=("instructions",), needs=("model", "instructions")),
    Shape("question", "text", False, (), ("response", "answer", "chosen"), ("system_prompt", "system"),
          ("response", "answer", "chosen"), _HALVES),
    Shape("query", "text", reply=("response",), needs=("response",), without=_HALVES),
    Shape("problem", "text", reply=("solution",), needs=("solution",), without=_HALVES),
)
_WHATEVER_BESIDE = 5


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


def _fits(record: Dict[str, Any], shape: Shape) -> bool:
    said = record.get(shape.key)
    if said is None or shape.sure:
        return said is not None
    if shape.needs and not _some(record, shape.needs) or _some(record, shape.without):
        return False
    if shape.said == "text":
        return isinstance(said, str)
    if not isinstance(said, list) or not said:
        return False
    return shape.said != "turns" if isinstance(said[0], str) else isinstance(said[0], dict) and (
        _some(said[0], ("role", "from", "parts")) or any(key.lower() in _SPEAKERS for key in said[0]))


def _some(record: Dict[str, Any], keys: Iterable[str]) -> bool:
    return any(record.get(key) is not None for key in keys)


def _shape(record: Dict[str, Any]) -> Optional[Shape]:
    shapes = _SHAPES[:_WHATEVER_BESIDE] if _some(record, _CONTENT) else _SHAPES
    return next((shape for shape in shapes if _fits(record, shape)), None)


def _has_content(record: Dict[str, Any]) -> bool:
    return _some(record, (*_CONTENT, "inputs")) or _shape(record) is not None


def _request(record: Any) -> Any:
    """The record, or the request in a line of a batch file or log."""
    if isinstance(record, dict) and not _has_content(record):
        for key in ("body", "request", "params"):
            if isinstance(record.get(key), dict) and _has_content(inner := _request(record[key])):
                return inner
    return record


def _content_of_parts(parts: Optional[List[Dict[str, Any]]]) -> Any:
    """Gemini's parts have no type."""
    typed = parts and [part if "type" in part else {"type": "text", "text": part["text"]} for part in parts]
    return typed[0]["text"] if typed and len(typed) == 1 and typed[0]["type"] == "text" else typed


def _turns(turn: Dict[str, Any], own: bool) -> List[Dict[str, Any]]:
    parts = _content_of_parts(turn.get("parts"))
    if turn.get("role") is None and turn.get("from") is None and parts is None:
        return [{"role": _ROLES.get(key.lower(), key.lower()), "content": said} for key, said in turn.items()]
    name = next((turn[key] for key in ("role", "from") if turn.get(key) is not None), "user")
    kept = own and turn.get("role") is not None
    role = name if kept and name in ("model", "function", "bot", "ai", "function_call") else _ROLES.get(name.lower(), name)
    content = next((turn[key] for key in ("content", "value", "text") if turn.get(key) is not None), parts)
    return [{**(turn if kept else {}), "role": role, "content": content}]


def _listed(shape: Shape, record: Dict[str, Any]) -> List[Dict[str, Any]]:
    """What is said, as turns."""
    said = record[shape.key]
    if shape.said == "text":
        more = next((record[key] for key in shape.more if record.get(key) is not None), "")
        earlier = [turn for pair in record.get("history") or [] for turn in ({"user": pair[0]}, {"assistant": pair[1]})]
        return earlier + [{"user": "\n".join(filter(None, (said, more)))}]
    said = json.loads(said) if isinstance(said, str) else said
    if isinstance(said[0], str):
        texts = [{("user", "assistant")[i % 2]: text} for i, text in enumerate(said)]
        return texts[:1] if shape.said == "first" else texts
    return said


def _chat(record: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The messages of a chat in any of its shapes; none where the record has no chat."""
    shape = _shape(record)
    if shape is None:
        return []
    listed = _listed(shape, record)
    reply = next((record[key] for key in shape.reply if record.get(key) is not None), None)
    listed = listed + (reply if isinstance(reply, list) else [{"assistant": reply}] if reply else [])
    messages = [message for turn in listed for message in _turns(turn, shape.key in ("messages", "prompt", "chosen"))]
    system = next((record[key] for key in shape.system if record.get(key) is not None), None)
    system = _content_of_parts(system["parts"]) if isinstance(system, dict) else system
    known = isinstance(system, str) or isinstance(system, list) and system and isinstance(system[0], dict)
    if system and known and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": system})
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
    if not found and isinstance(record.get("inputs"), str):
        return {"text": record["inputs"]}
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
