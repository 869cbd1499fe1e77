"""Number formats of a cache, and the scales that policies choose for them; written apart from the program's."""
from fractions import Fraction

import ml_dtypes
import numpy as np

from tables import from_bf16, to_bf16

FORMATS = {  # type or None, largest, default headroom
    "fp8_e4m3": (ml_dtypes.float8_e4m3fn, 448.0, 2),
    "fp8_e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 240.0, 2),
    "int8": (None, 127.0, 1),
}


def levels(x, name):
    """x rounded to the grid, saturating."""
    kind, largest, _ = FORMATS[name]
    x = np.clip(x, -largest, largest)
    return np.rint(x) if kind is None else x.astype(kind).astype(np.float64)


def round_trip(x, name, scale):
    """scale: a number, or one for each head: x [..., heads, dim]"""
    scale = np.asarray(scale, np.float64)
    if scale.ndim:
        scale = scale[:, None]
    return scale * levels(x / scale, name)


def rounded_up(scale):
    """The smallest float32 that is not below."""
    f = np.float32(scale)
    return float(np.nextafter(f, np.float32(np.inf)) if float(f) < scale else f)


def candidates(absmax, largest):
    """From a sixteenth to sixteen times the tight scale, eight to an octave."""
    return [absmax / largest * 2.0 ** (i / 8) for i in range(-32, 33)]


def cheapest(scales, costs):
    """Costs within a millionth are equal; then the largest scale."""
    least = min(costs)
    return [s for s, c in zip(scales, costs) if c <= least * (1 + 1e-6)][-1]


def percentile_scale(x, n, largest, percentile):
    order = np.argsort(x)
    total = int(n.sum())
    rank = -(-Fraction(str(percentile)) * total // 100)
    return float(x[order][np.searchsorted(np.cumsum(n[order]), int(rank))]) / largest


def mse_scale(x, n, name):
    scales = candidates(x.max(), FORMATS[name][1])
    return cheapest(scales, [float((n * (round_trip(x, name, s) - x) ** 2).sum()) for s in scales])


def information(p, width):
    return float((p * np.log(p / width)).sum())


def kl_scale(x, n, name):
    """Mass of every stored level, spread evenly over the bfloat16 magnitudes that fall on it."""
    codes, inverse = np.unique(to_bf16(x[x > 0]), return_inverse=True)
    p = np.bincount(inverse, n[x > 0])
    p = p / p.sum()
    value = from_bf16(codes)
    width = from_bf16((codes + 1).astype(np.uint16)) - value
    exact, scales, costs = information(p, width), candidates(x.max(), FORMATS[name][1]), []
    for s in scales:
        _, level = np.unique(levels(value / s, name), return_inverse=True)
        cost = exact - information(np.bincount(level, p), np.bincount(level, width))
        costs.append(cost if cost > 1e-12 else 0.0)
    return cheapest(scales, costs)


def scale_of(x, n, run):
    """x: magnitudes, n: how often each; -> float32 as float. A head of zeros alone has 1."""
    name, policy = run["dtype"], run.get("policy", "absmax")
    _, largest, headroom = FORMATS[name]
    absmax = float(x.max(initial=0))
    if absmax == 0:
        return 1.0
    if policy == "absmax":
        return rounded_up(absmax * run.get("headroom", headroom) / largest)
    if policy == "percentile":
        return rounded_up(percentile_scale(x, n, largest, run["percentile"]))
    return rounded_up({"mse": mse_scale, "kl": kl_scale}[policy](x, n, name))


def site_scale(arrays, run):
    """arrays: of (values [keys, heads, dim], how often each key); -> one scale, or one for each head."""
    def pooled(heads):
        x = np.concatenate([np.abs(a[n > 0][:, heads]).ravel() for a, n in arrays])
        n = np.concatenate([np.repeat(n[n > 0], a[0, heads].size) for a, n in arrays])
        return scale_of(x, n, run)
    if run.get("granularity") == "head":
        return [pooled(slice(h, h + 1)) for h in range(arrays[0][0].shape[1])]
    return pooled(slice(None))
