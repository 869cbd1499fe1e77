"""Quantised checkpoints with one thing wrong in one tensor of one weight: they must be refused in a line that names it."""

import re

import torch

from dice import Dice

NEEDLESS = re.compile(r"_shape$|input_scale$|g_idx$")  # what a weight can be read without
KINDS = ("missing", "cut", "longer", "dtype", "not a number")
OTHER_TYPES = {torch.int32: torch.float32, torch.uint8: torch.int64, torch.int8: torch.int64,
               torch.float8_e4m3fn: torch.int64}


def cut(dice: Dice, t: torch.Tensor) -> torch.Tensor:
    """Without the last of one of its extents."""
    axis = dice.choice([i for i in range(t.ndim) if t.shape[i] > 1])
    return t.narrow(axis, 0, t.shape[axis] - 1)


def longer(dice: Dice, t: torch.Tensor) -> torch.Tensor:
    """With one more of one of its extents above 1: another [out, 1] may be groups of columns."""
    axis = dice.choice([i for i in range(t.ndim) if t.shape[i] > 1])
    wide = t.view(torch.uint8) if t.dtype.itemsize == 1 else t
    return torch.cat((wide, wide.narrow(axis, 0, 1)), axis).view(t.dtype)


def change(dice: Dice, kind: str, t: torch.Tensor) -> torch.Tensor | None:
    """None where the kind of damage does not suit the tensor."""
    if kind in ("cut", "longer"):
        suits = any(extent > 1 for extent in t.shape)
        return {"cut": cut, "longer": longer}[kind](dice, t) if suits else None
    if kind == "dtype":
        return t.to(OTHER_TYPES[t.dtype]) if t.dtype in OTHER_TYPES else None
    wide = t.dtype.is_floating_point and t.dtype.itemsize > 1
    return t.clone().fill_(float("nan")) if wide else None


def damaged(dice: Dice, tensors: dict, quantised: dict) -> tuple[dict, str, str] | None:
    """-> the tensors with one of them changed, its module, and what was done to it. Not of the embeddings, by which the
    language model is found."""
    module = dice.choice([m for m in sorted(quantised) if not m.endswith("embed_tokens")] or sorted(quantised))
    name = dice.choice([n for n in sorted(quantised[module]) if not NEEDLESS.search(n)])
    kind, t = dice.choice(KINDS), tensors[name]
    done = f"{kind} {name} {t.dtype} {list(t.shape)}"
    others = {n: other for n, other in tensors.items() if n != name}
    if kind == "missing":
        return others, module, done
    changed = change(dice, kind, t)
    return None if changed is None else (others | {name: changed.contiguous()}, module, done)


def judge(answer: dict, module: str) -> str:
    """What is wrong with the answer to a damaged checkpoint, or "" """
    message = answer.get("error", "")
    if not message:
        return "was read"
    return "" if "\n" not in message and module in message else f"does not name it: {message}"
