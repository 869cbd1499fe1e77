"""Tables of numbers from a few words of JSON, equal to the last bit here and in tests/verdicts/case_tables.cpp.

A table is [rows, columns] of independent draws times "sigma", changed by its "edits" one after the other, then rounded to
bfloat16 (through float32, both to nearest, ties to even). Draw i of a stream comes from its outputs 4i .. 4i + 3 alone.
"""
import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(x):
    """splitmix64's output function, of an array of uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def stream(seed, index, first, n):
    """Outputs first .. first + n - 1 of a case's stream."""
    base = mix(np.array([seed * 64 + index], np.uint64))
    return mix(base + np.arange(first + 1, first + n + 1, dtype=np.uint64) * GOLDEN)


def draws(seed, index, n, kind):
    """Standard normal (sum of 12 uniforms of 21 bits), its cube, or a sign: exact in float64."""
    words = stream(seed, index, 0, 4 * n).reshape(n, 4)
    parts = [(words >> np.uint64(shift)) & np.uint64((1 << 21) - 1) for shift in (0, 21, 42)]
    twice = 2 * sum(parts).sum(axis=1).astype(np.int64) - 12 * ((1 << 21) - 1)
    normal = twice.astype(np.float64) / float(1 << 22)
    if kind == "normal":
        return normal
    if kind == "cubed":
        return (normal * normal) * normal
    if kind == "signs":
        return np.where(normal < 0, -1.0, 1.0)
    raise ValueError(kind)


def to_bf16(x):
    """float64 -> the bfloat16 codes (uint16); finite values only."""
    bits = np.asarray(x, np.float64).astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def from_bf16(codes):
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def rounded_to_bf16(x):
    return from_bf16(to_bf16(x))


def selected(span, n):
    """[first, behind the last], one index, or everything."""
    if span is None:
        return slice(0, n)
    return slice(span, span + 1) if isinstance(span, int) else slice(*span)


def edit(table, e):
    rows, columns = table.shape
    where = (selected(e.get("rows"), rows), selected(e.get("columns"), columns))
    (operation, value), = [(k, v) for k, v in e.items() if k not in ("rows", "columns")]
    old = table[where]
    table[where] = {
        "set": lambda: np.full_like(old, value),
        "times": lambda: old * value,
        "add": lambda: old + value,
        "magnitude": lambda: np.copysign(value, old),
    }[operation]()


def make_table(seed, index, shape, recipe):
    """-> bfloat16 codes, [rows, columns]"""
    table = draws(seed, index, shape[0] * shape[1], recipe.get("kind", "normal")) * float(recipe["sigma"])
    table = table.reshape(shape)
    for e in recipe.get("edits", []):
        edit(table, e)
    return to_bf16(table)


def token_ids(seed, index, prompt):
    """Ids of prompt number `index`: drawn from [first, behind the last], then those that the prompt puts somewhere."""
    first, behind = prompt.get("tokens", [1, 256])
    words = stream(seed, 32 + index, 0, prompt["length"])
    ids = (first + (words >> np.uint64(32)).astype(np.int64) % (behind - first))
    for position, token in prompt.get("put", []):
        ids[position] = token
    return ids
