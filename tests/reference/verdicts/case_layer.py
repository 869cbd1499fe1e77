"""The one attention layer of a case: shapes, tables and what the layer computes from a prompt before anything is rounded.

Embeddings and norms of the checkpoint (checkpoint.py) make the layer's input one-hot, so column t of a projection is what
token t gets. Tables with tokens as rows are the transposed weights.
"""
import hashlib
from dataclasses import dataclass

import numpy as np

from tables import from_bf16, make_table, rounded_to_bf16, token_ids

N_TOKENS = 256  # of the vocabulary, and the hidden size
TABLES = ("q", "k", "v", "o", "row", "gain", "kvb", "sinks")  # in the order of their streams


def shapes(case):
    """Name -> [rows, columns] of the tables that a case has."""
    heads = case["heads"]
    if case["class"] == "latent":
        rank, nope, turned, value = (case[k] for k in ("rank", "nope", "turned", "value"))
        return {"q": (N_TOKENS, heads * (nope + turned)), "row": (N_TOKENS, rank + turned), "gain": (1, rank),
                "kvb": (heads * (nope + value), rank), "o": (N_TOKENS, heads * value)}
    dim, kv = case["head_dim"], case["kv_heads"]
    named = {"q": (N_TOKENS, heads * dim), "k": (N_TOKENS, kv * dim), "v": (N_TOKENS, kv * dim),
             "o": (N_TOKENS, heads * dim)}
    if case["class"] == "sinks":
        named["sinks"] = (1, heads)
    return named


def build(case):
    """-> name -> bfloat16 codes"""
    return {name: make_table(case["seed"], TABLES.index(name), shape, case["tables"][name])
            for name, shape in shapes(case).items()}


def fingerprint(tables):
    """SHA-256 of the codes, little-endian, tables in the order of TABLES."""
    h = hashlib.sha256()
    for name in TABLES:
        if name in tables:
            h.update(tables[name].astype("<u2").tobytes())
    return h.hexdigest()


def prompts(case):
    return [token_ids(case["seed"], i, p) for i, p in enumerate(case["prompts"])]


@dataclass
class Rows:
    """What a prompt's queries meet. Keys are the vocabulary's, with how often each was seen, or those at each position."""
    q: np.ndarray          # [tokens, heads, dim]
    k: np.ndarray          # [keys, kv_heads, dim]
    v: np.ndarray          # [keys, kv_heads, value dim]
    log_count: np.ndarray  # [tokens, keys]: log of how often a key is visible, -inf: never
    seen: np.ndarray       # [keys]: how often a key is in the prompt
    ids: np.ndarray


@dataclass
class Layer:
    prompts: list
    o: np.ndarray      # [hidden, heads · value dim]
    scale: float       # softmax
    cap: float         # soft cap of logits, 0: none
    sinks: np.ndarray  # [heads] or None
    branch_norm: bool  # what attention adds is normed
    latent: int        # channels of a row that are the value as well, 0: keys and values are separate


def rotated(x, positions, theta, interleaved):
    """x [tokens, heads, dim], tables and result in bfloat16, products in float32, as servers do."""
    half = x.shape[-1] // 2
    exponent = (np.arange(half) / half).astype(np.float32).astype(np.float64)
    frequency = np.float32(1) / np.power(theta, exponent).astype(np.float32)
    angle = (positions.astype(np.float32)[:, None] * frequency).astype(np.float64)
    c, s = (rounded_to_bf16(f(angle)).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    x = x.astype(np.float32)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    pairs = (a * c - b * s, b * c + a * s)
    out = np.stack(pairs, -1).reshape(x.shape) if interleaved else np.concatenate(pairs, -1)
    return rounded_to_bf16(out)


def log(x):
    with np.errstate(divide="ignore"):
        return np.log(x)


def by_token(case, ids, q, k, v):
    """Keys are the vocabulary's: nothing depends on positions but how often a token was seen."""
    counts = np.cumsum(np.eye(N_TOKENS, dtype=np.int32)[ids], axis=0)
    window = case.get("window", 0)
    if window and len(ids) > window:
        counts[window:] = counts[window:] - counts[:-window].copy()
    seen = np.bincount(ids, minlength=N_TOKENS)
    return Rows(q[ids], k, v, log(counts), seen, ids)


def by_position(ids, q, k, v):
    visible = np.tril(np.ones((len(ids), len(ids))))
    return Rows(q, k, v, log(visible), np.ones(len(ids), int), ids)


def latent_layer(case, t):
    """MLA as decoding sees it: absorbed queries against rows [latent, rope part], whose latent part is the value too."""
    heads, rank, nope, turned, value = (case[k] for k in ("heads", "rank", "nope", "turned", "value"))
    c, rope = t["row"][:, :rank], t["row"][:, rank:]
    normed = rounded_to_bf16(c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-6))
    latent = rounded_to_bf16(normed * t["gain"])
    q = t["q"].reshape(N_TOKENS, heads, nope + turned)
    kb, vb = np.split(t["kvb"].reshape(heads, nope + value, rank), [nope], axis=1)
    absorbed = rounded_to_bf16(np.einsum("thn,hnr->thr", q[..., :nope], kb))
    o = np.einsum("xhv,hvr->xhr", t["o"].reshape(N_TOKENS, heads, value), vb).reshape(N_TOKENS, heads * rank)
    rows = []
    for ids in prompts(case):
        at = np.arange(len(ids))
        q_pe = rotated(q[ids][..., nope:], at, case["theta"], True)
        k_pe = rotated(rope[ids][:, None, :], at, case["theta"], True)
        row = np.concatenate([latent[ids][:, None, :], k_pe], -1)
        rows.append(by_position(ids, np.concatenate([absorbed[ids], q_pe], -1), row, row[..., :rank]))
    return Layer(rows, o, (nope + turned) ** -0.5, 0.0, None, False, rank)


def make_layer(case, tables):
    t = {name: from_bf16(codes) for name, codes in tables.items()}
    if case["class"] == "latent":
        return latent_layer(case, t)
    heads, kv, dim = case["heads"], case["kv_heads"], case["head_dim"]
    q, k, v = (t[n].reshape(N_TOKENS, -1, dim) for n in "qkv")
    rows = []
    for ids in prompts(case):
        if case["class"] == "rope":
            at = np.arange(len(ids))
            turn = lambda x: rotated(x[ids], at, case["theta"], False)  # noqa: E731
            rows.append(by_position(ids, turn(q), turn(k), v[ids]))
        else:
            rows.append(by_token(case, ids, q, k, v))
    sinks = t["sinks"][0] if "sinks" in t else None
    return Layer(rows, t["o"], dim ** -0.5, case.get("cap", 0.0), sinks, case["class"] == "capped", 0)
