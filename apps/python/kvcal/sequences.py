"""Which token of which prompt each row of a forward pass is."""

import hashlib
import inspect
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from kvcal.counting import Rows
from kvcal.kvstats import StatisticsError

TEXT, IMAGE = 5 * 1, 5 * 6  # kinds of tokens: of a prompt that is no chat; that an encoder made


@dataclass
class Sequences:
    """Of one batch, and of the passes that go on with its cache."""

    prompt: Tensor  # int64 [batch]
    length: Tensor  # int64 [batch]: tokens so far, padding left out


class Batch(NamedTuple):
    shape: torch.Size  # [batch, tokens]
    kept: Tensor  # bool [batch · tokens], padding is not
    rows: Rows  # of those that are kept
    sequences: Sequences


def arguments_of(model: Any, args: Any, kwargs: Mapping[str, Any]) -> Dict[str, Any]:
    """What a forward pass was called with, by name."""
    arguments = inspect.signature(model.forward).bind_partial(*args, **kwargs).arguments
    return {**arguments, **arguments.get("kwargs", {})}


def tokens_in(arguments: Mapping[str, Any]) -> Tensor:
    """Ids [batch, tokens], or rows [batch, tokens, channels]."""
    tokens = arguments.get("input_ids")
    tokens = arguments.get("inputs_embeds") if tokens is None else tokens
    if tokens is None:
        raise StatisticsError("a forward pass has neither input_ids nor inputs_embeds")
    return tokens


def cache_in(found: Any) -> Optional[Cache]:
    """In the arguments of a pass, or in what it gave back: its name differs between versions and classes."""
    values = found.values() if isinstance(found, Mapping) else found if isinstance(found, tuple) else ()
    return next((x for x in values if isinstance(x, Cache)), None)


def kept_tokens(mask: Any, shape: torch.Size, past: int) -> Tensor:
    """bool [batch, tokens]. A mask that says who sees whom shows padding as what does not see itself."""
    if isinstance(mask, Mapping):
        mask = mask.get("full_attention", next(iter(mask.values())))
    if mask is None:
        return torch.ones(shape, dtype=torch.bool)
    if mask.dim() == 2:
        return mask[:, -shape[1] :].bool().cpu()
    own = mask[:, 0].diagonal(past, dim1=-2, dim2=-1)
    return (own if own.dtype == torch.bool else own == 0).expand(shape).cpu()


class Feed:
    """Numbers the sequences that a model is given. Without ids they get some, in the order of arrival."""

    def __init__(self, prompt_ids: Optional[Sequence[str]], image_tokens: Sequence[int]):
        self.kind: Optional[int] = None  # of what comes now, where that is known
        self.next_ids: List[str] = []  # of the sequences to come, where it is not the order of `ids`
        self._given = None if prompt_ids is None else sorted(prompt_ids, key=str.encode)
        self.image_tokens = torch.tensor(list(image_tokens), dtype=torch.int64)  # of all that the model could be given
        self._digests: List[Any] = [hashlib.sha256() for _ in self._given or ()]
        self.n_tokens: List[int] = [0] * len(self._digests)  # by prompt
        self.n_image_tokens = self._n_seen = 0
        self._known: "WeakKeyDictionary[Any, Sequences]" = WeakKeyDictionary()

    @property
    def ids(self) -> List[str]:
        return [f"{i:08d}" for i in range(1, len(self.n_tokens) + 1)] if self._given is None else self._given

    def begin(self, arguments: Mapping[str, Any]) -> Batch:
        """Of a forward pass with these arguments."""
        tokens, cache = tokens_in(arguments), cache_in(arguments)
        shape = tokens.shape[:2]
        past = 0 if cache is None else int(cache.get_seq_length())
        sequences = self._sequences(cache, shape[0], past)
        kept = kept_tokens(arguments.get("attention_mask"), shape, past)
        token = sequences.length[:, None] + kept.cumsum(1) - 1
        sequences.length = sequences.length + kept.sum(1)
        rows = Rows(sequences.prompt[:, None].expand(shape)[kept], token[kept], self._kinds(tokens, kept))
        self._record(tokens, kept, sequences)
        return Batch(shape, kept.flatten(), rows, sequences)

    def remember(self, cache: Any, batch: Batch) -> None:
        """That later passes with this cache go on with the batch."""
        self._known[cache] = batch.sequences

    def _sequences(self, cache: Any, n: int, past: int) -> Sequences:
        known = self._known.get(cache) if past > 0 else None
        if known is None:
            return Sequences(torch.tensor([self._next_prompt() for _ in range(n)]), torch.full((n,), past))
        if len(known.prompt) != n:
            raise StatisticsError(f"a batch of {n} goes on with a cache of {len(known.prompt)}; which is which?")
        return known

    def _next_prompt(self) -> int:
        if self._given is None:
            self._digests.append(hashlib.sha256())
            self.n_tokens.append(0)
            return len(self.n_tokens) - 1
        self._n_seen += 1
        if self.next_ids:
            return self._given.index(self.next_ids.pop(0))
        if self._n_seen > len(self._given):
            raise StatisticsError(f"there are more sequences than the {len(self._given)} prompt ids")
        return self._n_seen - 1

    def _kinds(self, tokens: Tensor, kept: Tensor) -> Optional[Tensor]:
        if self.kind is None or tokens.dim() > 2:
            return None
        return torch.where(torch.isin(tokens.cpu()[kept], self.image_tokens), IMAGE, self.kind)

    def _record(self, tokens: Tensor, kept: Tensor, sequences: Sequences) -> None:
        host = tokens.detach().cpu()
        for prompt, row, mask in zip(sequences.prompt.tolist(), host, kept):
            part = row[mask]
            self.n_tokens[prompt] += len(part)
            if part.dim() == 1:
                self.n_image_tokens += int(torch.isin(part, self.image_tokens).sum())
            self._digests[prompt].update((part if part.dim() == 1 else part.float()).contiguous().numpy().tobytes())

    def sha256(self) -> str:
        """Over the ids of all prompts and what was fed of each."""
        all_of_it = hashlib.sha256()
        for name, digest in zip(self.ids, self._digests):
            all_of_it.update(f"{name}\n{digest.hexdigest()}\n".encode())
        return all_of_it.hexdigest()
