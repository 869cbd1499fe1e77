"""Which channels RoPE pairs, found by looking at what a class's own function makes of its argument.

A rotation keeps the length of each pair and changes the length of any other two channels. Where no pairing explains the
numbers, it stays unknown: `kvcal solve` then has no bound of keys at other positions than those measured.
"""

import sys
from types import ModuleType
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import torch
from torch import Tensor, nn


class Pairing(NamedTuple):
    rotary_dim: int = 0  # first channels, that turn
    pair_bound: str = "none"  # pairs of the weights: "neox", "gptj", or not known
    reordered: bool = False  # what comes out has the firsts of all pairs, then the seconds, though the weights have pairs


_PAIRS: Dict[str, Callable[[Tensor], Tuple[Tensor, Tensor]]] = {
    "neox": lambda x: (x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]),
    "gptj": lambda x: (x[..., ::2], x[..., 1::2]),
}
_HOW = (("neox", "neox"), ("gptj", "gptj"), ("gptj", "neox"))  # pairs of what goes in, and where they lie in what comes out


def _lengths(x: Tensor, pairs: str) -> Tensor:
    a, b = _PAIRS[pairs](x)
    return a.square() + b.square()


def _misfit(before: Tensor, after: Tensor, how: Tuple[str, str]) -> float:
    """Of the lengths of pairs, up to a factor of each row: yarn's, or that of a norm without gains."""
    old, new = _lengths(before, how[0]), _lengths(after, how[1])
    factor = new.sum(-1, keepdim=True) / old.sum(-1, keepdim=True)
    return float((new - factor * old).abs().sum() / new.sum())


def in_pairs(x: Tensor, begin: int, rotary_dim: int) -> Tensor:
    """With the channels from `begin` as the weights have them, where they were reordered."""
    turned = x[..., begin : begin + rotary_dim]
    paired = torch.stack(turned.chunk(2, dim=-1), dim=-1).flatten(-2)
    return torch.cat((x[..., :begin], paired, x[..., begin + rotary_dim :]), dim=-1)


def pairing_of(before: Tensor, after: Tensor) -> Pairing:
    """Of keys [..., channels] of several positions."""
    tolerance = 4 * torch.finfo(after.dtype).eps
    width, before, after = after.shape[-1], before.double(), after.double()
    turned = (before != after).flatten(0, -2).any(0).nonzero()
    last = int(turned.max()) + 1 if len(turned) else 0
    for rotary_dim in (last, width):  # the last pairs may stand still
        if last > 0 and rotary_dim % 2 == 0:
            x, y = before[..., :rotary_dim], after[..., :rotary_dim]
            best = min(_HOW, key=lambda how: _misfit(x, y, how))
            if _misfit(x, y, best) < tolerance:
                return Pairing(rotary_dim, best[0], best[0] != best[1])
    return Pairing()


class RotaryWatch:
    """Listens to the functions that apply RoPE in the module of a class: they are called by name there."""

    def __init__(self) -> None:
        self.calls: List[Tuple[Tensor, Tensor]] = []  # since they were cleared: argument and result
        self._replaced: List[Tuple[ModuleType, str, Callable[..., Any]]] = []

    def start(self, model: nn.Module) -> None:
        for module in {sys.modules[type(m).__module__] for m in model.modules() if type(m).__module__ in sys.modules}:
            for name, function in list(vars(module).items()):
                if callable(function) and name.lstrip("_").startswith("apply_") and ("rot" in name or "rope" in name):
                    self._replaced.append((module, name, function))
                    setattr(module, name, self._watched(function))

    def stop(self) -> None:
        for module, name, function in self._replaced:
            setattr(module, name, function)
        self._replaced.clear()
        self.calls.clear()

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def apply(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            results = result if isinstance(result, tuple) else (result,)
            given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
            self.calls += [(x, y) for x, y in zip(given, results) if isinstance(y, Tensor) and x.shape == y.shape]
            return result

        return apply

    def magnitude(self, stated: float) -> float:
        """What every pair is lengthened by: `stated`, unless the function does something else."""
        for before, after in self.calls:
            rotary_dim = pairing_of(before, after).rotary_dim
            if rotary_dim > 0:
                old, new = (x[..., :rotary_dim].double().norm() for x in (before, after))
                found = float(new / old)
                return stated if abs(found - stated) < 0.01 * stated else round(found, 4)
        return stated

    def pairing(self, stored: Tensor) -> Pairing:
        """Of what was stored [batch, heads, tokens, channels]. Where a norm with gains comes after RoPE, no pairs are found."""
        rotary_dim = 0
        for before, after in self.calls:
            rotary_dim = pairing_of(before, after).rotary_dim
            for given in (before, before.transpose(1, 2)):
                part = stored[..., : given.shape[-1]]
                found = pairing_of(given, part) if given.shape == part.shape else Pairing()
                if found.pair_bound != "none":
                    return found
        return Pairing(rotary_dim)
