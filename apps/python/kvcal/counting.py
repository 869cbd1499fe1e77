"""Counting what a cache is given, on the device where it lies: integers and maxima alone, so that neither the device nor
the order of forward passes changes a count.

One addition per value counts all moments of its channel: a word, of its sign and octave, holds three sums of the 7-bit
mantissas f: count (15 bits), Σf (21), Σf² (28). They cannot overflow within 16,384 tokens; then they become 64-bit moments,
where the significand m = 128 + f of the normal octaves gives Σm = Σf + 128 n and Σm² = Σf² + 256 Σf + 16384 n.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from kvcal.kvstats import BUCKETS, CODES, INFINITY, KINDS, OCTAVES, Extent, SiteCounts

_MOST_PACKED = 16384  # tokens
_CHUNK_VALUES = 1 << 23  # at a time: what is made of them takes some 30 bytes each
_CHANNEL_BITS, _TOKEN_BITS = 16, 24  # of a place in one number; the rest is the prompt
_NOWHERE = torch.iinfo(torch.int64).max


class Rows(NamedTuple):
    """Whose the rows are that are counted; all [rows], on one device."""

    prompt: Tensor  # int64, in the order of the prompts
    token: Tensor  # int64: in the prompt, which is its position
    kind: Optional[Tensor]  # int64, or not told apart

    def to(self, device: torch.device) -> "Rows":
        return Rows(self.prompt.to(device), self.token.to(device), None if self.kind is None else self.kind.to(device))

    def part(self, begin: int, end: int) -> "Rows":
        kind = None if self.kind is None else self.kind[begin:end]
        return Rows(self.prompt[begin:end], self.token[begin:end], kind)


def bucket_of(position: Tensor) -> Tensor:
    """Bits that each number has: 0 of position 0, b of 2^(b-1) to 2^b - 1."""
    return torch.frexp(position.double()).exponent.long()


def raise_to(table: Tensor, index: Tensor, values: Tensor) -> None:
    table.scatter_reduce_(0, index, values, "amax")


class SiteCounter:
    """Counts one site of one cache. Tables are dense and stay on `device`: 256 KiB a head, 12 KiB a channel, of queries 4."""

    def __init__(self, site: str, extent: Extent, pair_bound: str, device: torch.device):
        self.site, self.extent, self.pair_bound, self.device = site, extent, pair_bound, device
        heads, width, pairs = extent
        self._signs = 1 if site == "query" else 2
        self._codes = self._zeros(heads * CODES)
        self._packed = self._zeros(heads * width * self._signs * 256)
        self._moments = self._zeros(1 if site == "query" else 4, heads * width, 256)  # Σm², Σm, signed Σm, count
        self._packed_tokens = self.n_tokens = 0
        self._token_octaves = self._zeros(heads * 256)
        self._channel_absmax = self._zeros(heads, width)
        self._pair_squares = torch.zeros(heads, pairs, dtype=torch.float64, device=device)
        self._absmax = torch.full((heads,), -1, dtype=torch.int64, device=device)
        self._place = self._zeros(heads)
        self._position_absmax, self._kind_absmax = self._zeros(BUCKETS), self._zeros(KINDS)
        self._kind_tokens, self._prompt_absmax = self._zeros(KINDS), self._zeros(0)

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.int64, device=self.device)

    def add(self, x: Tensor, rows: Rows, n_prompts: int) -> None:
        """x: [rows, heads, width], of any floating type; the prompts of `rows` are below n_prompts."""
        if self._prompt_absmax.numel() < n_prompts:
            self._prompt_absmax = torch.cat((self._prompt_absmax, self._zeros(n_prompts - self._prompt_absmax.numel())))
        step = min(_MOST_PACKED, max(1, _CHUNK_VALUES // (self.extent.heads * self.extent.width)))
        for begin in range(0, len(x), step):
            self._add_chunk(x[begin : begin + step].to(torch.bfloat16), rows.part(begin, begin + step))

    def _add_chunk(self, x: Tensor, rows: Rows) -> None:
        bits = x.contiguous().view(torch.int16)
        codes = (bits & 0x7FFF).long()
        finite = codes < INFINITY
        self._count_codes(codes)
        self._count_moments(codes, bits < 0, finite)
        if self.extent.pairs:
            self._raise_pairs(x)
        self._raise_maxima(torch.where(finite, codes, 0), rows)
        self.n_tokens += len(x)

    def _count_codes(self, codes: Tensor) -> None:
        heads = torch.arange(self.extent.heads, device=self.device)[:, None] * CODES
        self._codes += torch.bincount((codes + heads).flatten(), minlength=self._codes.numel())

    def _count_moments(self, codes: Tensor, negative: Tensor, finite: Tensor) -> None:
        if self._packed_tokens + len(codes) > _MOST_PACKED:
            self._unpack()
        self._packed_tokens += len(codes)
        f = codes & 127
        word = (1 | f << 15 | (f * f) << 36) * finite
        channel = torch.arange(codes[0].numel(), device=self.device).view(codes.shape[1:])
        row = channel * self._signs + (negative if self._signs == 2 else 0)
        self._packed.index_add_(0, (row * 256 + (codes >> 7)).flatten(), word.flatten())

    def _unpack(self) -> None:
        words = self._packed.view(-1, self._signs, 256)
        n, f, f2 = words & 0x7FFF, words >> 15 & 0x1FFFFF, words >> 36 & 0xFFFFFFF
        normal = torch.arange(256, device=self.device) > 0
        m, m2 = f + 128 * n * normal, f2 + (256 * f + 16384 * n) * normal
        self._moments[0] += m2.sum(1)
        if self._signs == 2:
            for table, sums in zip(self._moments[1:], (m.sum(1), m[:, 0] - m[:, 1], n.sum(1))):
                table += sums
        self._packed.zero_()
        self._packed_tokens = 0

    def _raise_pairs(self, x: Tensor) -> None:
        pairs = self.extent.pairs
        turned = x[..., : 2 * pairs].double().square()
        neox = self.pair_bound == "neox"
        a, b = (turned[..., :pairs], turned[..., pairs:]) if neox else (turned[..., ::2], turned[..., 1::2])
        self._pair_squares = torch.maximum(self._pair_squares, (a + b).amax(0))

    def _raise_maxima(self, codes: Tensor, rows: Rows) -> None:
        if self.site != "query":
            self._channel_absmax = torch.maximum(self._channel_absmax, codes.amax(0))
        by_head = codes.amax(2)  # [rows, heads]
        heads = torch.arange(self.extent.heads, device=self.device)
        self._token_octaves += torch.bincount((heads * 256 + (by_head >> 7)).flatten(), minlength=heads.numel() * 256)
        by_row = by_head.amax(1)
        raise_to(self._position_absmax, bucket_of(rows.token), by_row)
        raise_to(self._prompt_absmax, rows.prompt, by_row)
        if rows.kind is not None:
            raise_to(self._kind_absmax, rows.kind, by_row)
            self._kind_tokens += torch.bincount(rows.kind, minlength=KINDS)
        self._place_maxima(codes, by_head, rows)

    def _place_maxima(self, codes: Tensor, by_head: Tensor, rows: Rows) -> None:
        """Of equal magnitudes the first by prompt, token, channel."""
        largest = by_head.amax(0)
        at = (rows.prompt << _TOKEN_BITS | rows.token) << _CHANNEL_BITS
        place, row = torch.where(by_head == largest, at[:, None], _NOWHERE).min(0)
        heads = torch.arange(self.extent.heads, device=self.device)
        place |= (codes[row, heads] == largest[:, None]).int().argmax(1)
        better = (largest > self._absmax) | (largest == self._absmax) & (place < self._place)
        self._absmax = torch.where(better, largest, self._absmax)
        self._place = torch.where(better, place, self._place)

    def _where(self) -> Tensor:
        """[heads, 6]: pass, prompt, token, position, head, channel."""
        place = self._place.cpu()
        token = place >> _CHANNEL_BITS & (1 << _TOKEN_BITS) - 1
        prompt, channel = place >> _CHANNEL_BITS + _TOKEN_BITS, place & (1 << _CHANNEL_BITS) - 1
        return torch.stack((torch.ones_like(place), prompt, token, token, torch.arange(len(place)), channel), dim=1)

    def counts(self, n_prompts: int) -> SiteCounts:
        """All that was counted so far, on the host."""
        self._unpack()
        heads, width, _ = self.extent
        prompts = torch.zeros(n_prompts, dtype=torch.int64)
        prompts[: self._prompt_absmax.numel()] = self._prompt_absmax.cpu()
        moments = [table.view(heads, width, 256)[..., :OCTAVES].cpu().numpy() for table in self._moments]
        names = ("channel_sum_m2", "channel_sum_m", "channel_signed_sum_m", "channel_count")
        counts = SiteCounts(
            codes=self._codes.view(heads, CODES).cpu().numpy(),
            token_octaves=self._token_octaves.view(heads, 256)[:, :OCTAVES].cpu().numpy(),
            where=self._where().numpy(),
            position_absmax=self._position_absmax.cpu().numpy().astype("u2"),
            prompt_absmax=prompts.numpy().astype("u2")[None],
            n_tokens=self.n_tokens,
            **dict(zip(names, moments)),
        )
        if self.site != "query":
            counts.channel_absmax = self._channel_absmax.cpu().numpy().astype("u2")
        if self.extent.pairs:
            counts.pair_norm = self._pair_squares.sqrt().cpu().numpy()
        if int(self._kind_tokens.sum()) == self.n_tokens:
            counts.kind_absmax = self._kind_absmax.cpu().numpy().astype("u2")[None]
            counts.kind_tokens = self._kind_tokens.cpu().numpy()
        return counts
