"""How formats store one weight [out, in], or those of all experts [experts, out, in]: its tensors, called as beside a
module "x" they are x.weight, x.weight_scale, ..., and the weight that they mean: products in f32, rounded to bf16 once.
None where the extents do not fit the format."""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1] / "weights"))
from formats import E2M1, bit_stream, halves, spread  # noqa: E402

MOST = 448.0


def e4m3(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-MOST, MOST).to(torch.float8_e4m3fn)


def largest(weight: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The largest magnitude of every rectangle, the last of which may be cut off."""
    flat = weight.abs().reshape(-1, *weight.shape[-2:])
    pooled = torch.nn.functional.max_pool2d(flat, (rows, columns), ceil_mode=True)
    return pooled.reshape(*weight.shape[:-2], *pooled.shape[1:]).clamp_min(1e-6)


def fp8(weight, rows: int, columns: int, suffix="weight_scale", dtype=torch.float32):
    scale = (largest(weight, rows, columns) / MOST).to(dtype)
    full = spread(scale, rows, columns, weight.shape)
    stored = e4m3(weight / full)
    return {"weight": stored, suffix: scale}, stored.float() * full


def fp8_channel(weight, dtype=torch.bfloat16):
    return fp8(weight, 1, weight.shape[-1], dtype=dtype)


def fp8_tensor(weight, suffix="weight_scale", shape=()):
    """One scale; of all experts one each, [experts, 1, 1]."""
    parts, product = fp8(weight, *weight.shape[-2:], suffix)
    return dict(parts, **{suffix: parts[suffix].reshape(shape) if weight.ndim == 2 else parts[suffix]}), product


def int8_channel(weight):
    scale = (weight.abs().amax(-1, keepdim=True).clamp_min(1e-6) / 127).bfloat16()
    stored = (weight / scale.float()).round().clamp(-128, 127).to(torch.int8)
    return {"weight": stored, "weight_scale": scale}, stored.float() * scale.float()


def integers(weight, bits: int, group: int, symmetric: bool, low: int = 0, dtype=torch.bfloat16):
    """Unsigned values, scales and zero points [.., out, groups] of columns in groups; zero points are at least `low`."""
    parts = weight.unflatten(-1, (-1, group))
    if symmetric:
        zero = torch.full(parts.shape[:-1], 1 << bits - 1)
        scale = (parts.abs().amax(-1) / ((1 << bits - 1) - 0.5)).clamp_min(1e-6).to(dtype)
    else:
        least, most = parts.amin(-1).clamp_max(0), parts.amax(-1).clamp_min(0)
        scale = ((most - least) / ((1 << bits) - 1)).clamp_min(1e-6).to(dtype)
        zero = (-least / scale.float()).round().clamp(low, (1 << bits) - 1).long()
    q = ((parts / scale.float()[..., None]).round() + zero[..., None]).clamp(0, (1 << bits) - 1).long()
    return q.flatten(-2), scale, zero


def in_order(generator, columns: int, group: int) -> torch.Tensor:
    """The group of every column, in an order of its own."""
    return torch.arange(columns).div(group, rounding_mode="floor")[torch.randperm(columns, generator=generator)]


def ordered_integers(weight, order, *arguments):
    """The same with columns in the groups that `order` says."""
    sorting = order.argsort(stable=True)
    q, scale, zero = integers(weight[..., sorting], *arguments)
    return q[..., sorting.argsort()], scale, zero


def group_of(weight, group: int) -> int | None:
    size = weight.shape[-1] if group < 0 else group
    return None if weight.shape[-1] % size else size


def packed(weight, bits: int, group: int, symmetric: bool, order=None):
    """pack-quantized of compressed-tensors."""
    size = group_of(weight, group)
    if not size or (order is not None and weight.ndim == 3):
        return None
    columns = order(weight.shape[-1], size) if order else torch.arange(weight.shape[-1]) // size
    q, scale, zero = ordered_integers(weight, columns, bits, size, symmetric)
    parts = {"weight_packed": bit_stream(q, bits, -1), "weight_scale": scale, "weight_shape": torch.tensor(weight.shape)}
    if not symmetric:
        parts["weight_zero_point"] = bit_stream(zero, bits, -2)
    if order:
        parts["weight_g_idx"] = columns.int()
    return parts, (q - zero[..., columns]).float() * scale.float()[..., columns]


def gptq(weight, bits: int, group: int, symmetric: bool, less: int = 1, order=None, g_idx=True):
    size = group_of(weight, group)
    if not size or weight.ndim == 3 or weight.shape[1] * bits % 32 or weight.shape[0] * bits % 32:
        return None
    columns = order(weight.shape[1], size) if order else torch.arange(weight.shape[1]) // size
    q, scale, zero = ordered_integers(weight, columns, bits, size, symmetric, less, torch.half)
    parts = {"qweight": bit_stream(q.T, bits, 0), "qzeros": bit_stream(zero.T - less, bits, 1), "scales": scale.T}
    return dict(parts, g_idx=columns.int()) if g_idx or order else parts, \
        (q - zero[:, columns]).float() * scale.float()[:, columns]


def awq(weight, group: int):
    size = group_of(weight, group)
    if not size or weight.ndim == 3 or weight.shape[0] % 8:
        return None
    q, scale, zero = integers(weight, 4, size, False, 0, torch.half)
    pack = lambda values: bit_stream(values.unflatten(-1, (-1, 8))[..., [0, 2, 4, 6, 1, 3, 5, 7]].flatten(-2), 4, -1)
    return {"qweight": pack(q.T), "qzeros": pack(zero.T), "scales": scale.T}, \
        (q - zero.repeat_interleave(size, 1)).float() * scale.float().repeat_interleave(size, 1)


def e2m1(weight, scale) -> torch.Tensor:
    """Codes of the nearest values."""
    real = (weight / scale).nan_to_num()
    return (real.abs()[..., None] - E2M1[:8]).abs().argmin(-1) + 8 * (real < 0)


def nvfp4(weight, divide: bool):
    """divide: as compressed-tensors, else as ModelOpt; the second scale is one for every expert."""
    if weight.shape[-1] % 16:
        return None
    most = weight.abs().amax((-2, -1), keepdim=True).clamp_min(1e-6)
    second = most / (6 * MOST)
    if divide:
        second = 1 / (1 / second)
    scale = e4m3((largest(weight, 1, 16) / 6 / second).clamp_min(2**-6))
    real = scale.float() / (1 / second) if divide else scale.float() * second
    full = spread(real, 1, 16, weight.shape)
    codes = e2m1(weight, full)
    shape = (1,) if divide and weight.ndim == 2 else second.shape[:-2]
    parts = {"weight_packed" if divide else "weight": halves(codes), "weight_scale": scale}
    parts["weight_global_scale" if divide else "weight_scale_2"] = (1 / second if divide else second).reshape(shape)
    return parts, E2M1[codes] * full


def powers(weight, most: float) -> torch.Tensor:
    """Exponents of powers of two for groups of 32, as bytes."""
    return ((largest(weight, 1, 32) / most).log2().ceil() + 127).clamp(1, 254).to(torch.uint8)


def mxfp4(weight, names=("weight_packed", "weight_scale"), blocks=False):
    if weight.shape[-1] % 32:
        return None
    scale = powers(weight, 6)
    full = spread(torch.exp2(scale.float() - 127), 1, 32, weight.shape)
    codes = e2m1(weight, full)
    stored = halves(codes)
    return {names[0]: stored.unflatten(-1, (-1, 16)) if blocks else stored, names[1]: scale}, E2M1[codes] * full


def mxfp8(weight):
    if weight.shape[-1] % 32:
        return None
    scale = powers(weight, MOST)
    full = spread(torch.exp2(scale.float() - 127), 1, 32, weight.shape)
    stored = e4m3(weight / full)
    return {"weight": stored, "weight_scale": scale}, stored.float() * full
