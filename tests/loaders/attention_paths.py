"""What is rounded when as a server reads a cache of 8 bits: paths as data, the attention that they compute, and models that are wrong."""

import dataclasses

import torch
from triton_on_cpu import E4M3, rounded


@dataclasses.dataclass(frozen=True)
class Case:
    q: torch.Tensor  # [tokens, heads, channels], bfloat16
    k: torch.Tensor
    v: torch.Tensor
    softmax_scale: float
    window: int | None
    rope: int | None = None  # channels of a latent row's rope part where the kernel reads them apart
    ends: tuple = (1, 20, 33, 65)  # tokens behind which a query decodes


@dataclasses.dataclass(frozen=True)
class Path:
    """What a path rounds, and when. Probabilities are those below the running maximum, of tile after tile."""

    server: str
    run: str
    cases: tuple
    query: str | None = None        # E4M3: at the scale of queries; with one of 1.0 in SGLang
    quotient: str = "f32"           # what a row divided by its scale is rounded to before it is E4M3
    divisor: str = "f32"            # what that scale is rounded to
    read: str = "bf16"              # a row times its scale is rounded to bf16; folded: scales multiply logits and outputs
    per_row: float | None = None    # the largest number of a format that has scales for each row of a head
    p: str = "bf16"                 # what probabilities are rounded to
    p_factor: float = 1             # what they are multiplied by before
    tile: int = 32
    splits: int = 1
    own_chunk: int = 0              # the last so many tokens are one chunk, which sees itself unrounded
    own_p: tuple = ("bf16", 1)      # `p` and `p_factor` there


IN_BF16 = {"quotient": "bf16", "divisor": "bf16"}
PATHS = {
    "vllm": {
        "unified, queries in E4M3": Path("vllm", "unified", ("grouped", "window", "no groups"), query="e4m3", read="folded", p="e4m3", p_factor=256),
        "the same, split": Path("vllm", "unified", ("grouped", "window"), query="e4m3", read="folded", p="e4m3", p_factor=256, splits=2),
        "the same, a loud first key": Path("vllm", "unified", ("loud",), query="e4m3", read="folded", p="e4m3", p_factor=256, splits=16),
        "unified, queries in bf16": Path("vllm", "unified", ("grouped", "window", "no groups"), read="bf16"),
        "unified, fp8_per_token_head": Path("vllm", "unified", ("grouped", "window"), read="rows", per_row=448),
        "unified, int8_per_token_head": Path("vllm", "unified", ("grouped", "window"), read="rows", per_row=127),
        "unified, int4_per_token_head": Path("vllm", "unified", ("grouped", "window"), read="rows", per_row=15, p="f32"),
        "MLA decode": Path("vllm", "mla", ("mla", "mla 576"), splits=2),
    },
    "sglang": {
        "decode": Path("sglang", "decode", ("grouped", "window"), query="e4m3", **IN_BF16, read="folded", p="e4m3"),
        "the same, split": Path("sglang", "decode", ("grouped",), query="e4m3", **IN_BF16, read="folded", p="e4m3", splits=2),
        "decode, a loud first key": Path("sglang", "decode", ("loud",), query="e4m3", **IN_BF16, read="folded", p="e4m3"),
        "decode, a loud first key, split": Path("sglang", "decode", ("loud",), query="e4m3", **IN_BF16, read="folded", p="e4m3", splits=8),
        "decode, no groups": Path("sglang", "decode", ("no groups",), **IN_BF16, read="folded", p="f32", tile=64),
        "extend behind a prefix": Path("sglang", "extend", ("grouped", "window", "no groups"), query="e4m3", **IN_BF16, read="folded",
                                       p="e4m3", tile=64, own_chunk=33),
        "MLA decode": Path("sglang", "decode", ("mla", "mla 576"), query="e4m3", **IN_BF16, read="folded", p="e4m3", splits=2),
    },
}


def as_(kind, x):
    return rounded(x, {"f32": torch.float32, "bf16": torch.bfloat16, "e4m3": E4M3}[kind]).float()


def stored(path, x, scale):
    """What the cache holds of x, as f32, and the scale of each row of a head."""
    x = x.float()
    if path.per_row in (15, 16):
        return in_four_bits(x, path.per_row)
    if path.per_row:
        scale = torch.clamp(x.abs().amax(-1, keepdim=True) / path.per_row, min=1e-6)
        codes = x * (1 / scale)
        codes = rounded(codes, E4M3).float() if path.per_row == 448 else torch.trunc(codes + 0.5 * codes.sign()).clamp(-128, 127)
        return codes, scale
    quotient = as_(path.quotient, x / as_(path.divisor, torch.tensor(scale)))
    return as_("e4m3", quotient), torch.full((*x.shape[:2], 1), scale)


def in_four_bits(x, largest):
    """With a zero point, which lies in the last bits of the scale."""
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    scale = torch.clamp((high - low) / largest, min=1e-6)
    zero = torch.trunc(-low / scale + 0.5 * (-low).sign()).clamp(0, 15)
    codes = x * (1 / scale) + zero
    return torch.trunc(codes + 0.5 * codes.sign()).clamp(0, 15) - zero, (scale.view(torch.int32) & -16).view(torch.float32)


def tiles(path, first, end, begin):
    """[[(first, end of a tile's keys), ...] of each split]; tiles begin at multiples from `begin`."""
    of_split = -(-(end - begin) // path.splits)
    if path.run != "mla":
        of_split = -(-of_split // 32) * 32
    found = []
    for start in range(begin, end, max(of_split, 1)):
        stop = min(start + of_split, end)
        found.append([(max(a, first), min(a + path.tile, stop)) for a in range(start, stop, path.tile) if min(a + path.tile, stop) > first])
    return [split for split in found if split]


def attend(path, case, write, read, positions, q_scale):
    """[queries, heads, channels of a value]. write, read: scales of keys and values."""
    n_heads, n_kv = case.q.shape[1], case.k.shape[1]
    (k, k_row), (v, v_row) = (stored(path, x, s) for x, s in zip((case.k, case.v), write))
    logit, value = 1.0, 1.0
    if path.read == "bf16":
        k, v = (k * read[0]).bfloat16().float(), (v * read[1]).bfloat16().float()
    elif path.read == "f32":
        k, v = k * read[0], v * read[1]
    elif path.read == "folded":
        logit, value = read
    q = case.q.float()
    if path.query:
        turned = as_(path.query, q / q_scale)
        q = torch.cat((turned[..., : -case.rope], q[..., -case.rope :]), -1) if case.rope else turned
        logit *= q_scale
    group = n_heads // n_kv
    spread = lambda x: x.repeat_interleave(group, 1)  # noqa: E731
    k, v, k_row, v_row, own_k, own_v = map(spread, (k, v, k_row, v_row, case.k.float(), case.v.float()))
    rows = {False: (q, k, v, path.p, path.p_factor, logit, value), True: (case.q.float(), own_k, own_v, *path.own_p, 1.0, 1.0)}
    outputs = []
    for position in positions:
        parts = [part(path, case, rows, position, split, (k_row, v_row)) for split in splits_of(path, case, position)]
        top = torch.stack([top for top, _total, _sum in parts]).amax(0)
        weights = [torch.exp(part_top - top) for part_top, _total, _sum in parts]
        total = sum(w * of_part for w, (_top, of_part, _sum) in zip(weights, parts))
        outputs.append(sum(w[:, None] * of_part for w, (_top, _total, of_part) in zip(weights, parts)) / total[:, None])
    return torch.stack(outputs)


def splits_of(path, case, position):
    """[[(first, end, whether it is the own chunk, unrounded), ...] of each split]."""
    own_begin = len(case.k) - path.own_chunk
    first = max(0, position + 1 - case.window) if case.window else 0
    begin = first if path.run == "decode" else 0
    if not path.own_chunk or position < own_begin:
        return [[(*t, False) for t in split] for split in tiles(path, first, position + 1, begin)]
    prefix = [(*t, False) for split in tiles(path, first, own_begin, begin) for t in split]
    return [prefix + [(*t, True) for split in tiles(path, max(first, own_begin), position + 1, own_begin) for t in split]]


def part(path, case, rows, position, split, scales):
    """(largest logit, sum of exponentials below it, their sum of values) of a split, tile by tile."""
    n_heads = case.q.shape[1]
    top, total, sum_ = torch.full((n_heads,), -torch.inf), torch.zeros(n_heads), 0.0
    for a, b, own in split:
        q, k, v, kind, factor, logit, value = rows[own]
        s = torch.einsum("hd,nhd->hn", q[position], k[a:b]) * (case.softmax_scale * logit)
        k_row, v_row = (row[a:b, :, 0].T if path.read == "rows" else 1.0 for row in scales)
        s = s * k_row
        now = torch.maximum(top, s.amax(1))
        p, fade = torch.exp(s - now[:, None]), torch.exp(top - now)
        total = total * fade + p.sum(1)
        sum_ = sum_ * fade[:, None] + torch.einsum("hn,nhd->hd", as_(kind, p * v_row * factor) / factor, v[a:b]) * value
        top = now
    return top, total, sum_


def mutants(path, mla):
    """{name: (path, written with, read with)}, each wrong in one way; the latter two are functions of the right scales."""
    same = lambda s: s  # noqa: E731
    change = lambda **fields: (dataclasses.replace(path, **fields), same, same)  # noqa: E731
    found = {f"probabilities in {kind}": change(p=kind, p_factor=1) for kind in ("f32", "bf16", "e4m3") if kind != path.p}
    if path.p_factor > 1:
        found["factor of probabilities left out"] = change(p_factor=1)
    elif path.p == "e4m3":
        found["a factor of probabilities"] = change(p_factor=256)
    found["queries in bf16" if path.query else "queries in E4M3"] = change(query=None if path.query else "e4m3")
    if path.own_chunk:
        found["own chunk rounded"] = change(own_chunk=0)
    if path.per_row:
        found["largest number is another"] = change(per_row={448: 240, 127: 128, 15: 16}[path.per_row])
        return found
    if path.read == "bf16":
        found["rows read in f32"] = change(read="f32")
    if path.read == "folded":
        found["rows read in bf16"] = change(read="bf16")
    for field in ("quotient", "divisor"):
        other = "f32" if getattr(path, field) == "bf16" else "bf16"
        found[f"{field} in {other}"] = change(**{field: other})
    found["not divided"] = (path, lambda _s: (1.0, 1.0), same)
    found["not multiplied"] = (path, same, lambda _s: (1.0, 1.0))
    found["read scale in bf16"] = (path, same, lambda s: tuple(torch.tensor(s).bfloat16().float().tolist()))
    if not mla:
        found["scales exchanged"] = (path, lambda s: s[::-1], lambda s: s[::-1])
    return found
