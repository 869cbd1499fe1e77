"""Writes tests/unit/data/format_errors: cases.jsonl has layers, errors.jsonl what storing their keys, values or latent rows
costs in each format: sqrt(Σ(x' - x)² / Σx²) of the worst head, in float64. Tables are those of tables.py; row t of one is what
token t stores, at any position.

    python make_format_errors.py    (numpy, ml_dtypes, torch)

fp8_e4m3, fp8_e5m2, int8: one static scale for the site, or one for each head, from all tokens of all prompts.
int8_per_channel: each channel at its own absmax / 127. fp8_e4m3_per_row: each token and head at its own absmax / 448.
nvfp4: blocks of 16 channels of E2M1 numbers at block absmax / 6, stored as E4M3 times the global scale R / (6 · 448), where R
is the power of two above the row's absmax; in nvfp4_of_the_cache, which the program cannot know, R is the site's absmax.
int4_per_row: vLLM's cache int4_per_token_head, of keys and values. Blocks of a row, as wide as the largest power of two that
divides it, are multiplied by signs (torch draws them, as vLLM does) and by Sylvester's Hadamard matrix, and become bf16. The step
is (most - least) / 15 of a row, at least 1e-6; codes 0 to 15 count from a code that stands for zero and lies in the four low bits
of the float32 step. The block is turned back where it is read.
These four are of sampled tokens: of each prompt all up to 64, else the first and the last of each of 63 equal parts of the
rest. Of a latent row the "heads" are its two parts, scales and blocks those of the whole row.
"""
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import torch

from case_layer import N_TOKENS, build, fingerprint, prompts
from case_words import HEAD, case, each_head, edit, latent_case, table
from number_formats import FORMATS, round_trip, site_scale
from tables import from_bf16

FORMATS["fp8_e5m2"] = (ml_dtypes.float8_e5m2, 57344.0, 2)
FOLDER = Path(__file__).resolve().parents[2] / "unit" / "data" / "format_errors"
STATIC = ("fp8_e4m3", "fp8_e5m2", "int8")
SITES = ["key", "value"]
E4M3, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn


def cases():
    dead = each_head(2, 64, [4, 8], set=0.0) + each_head(2, 64, 9, set=1e-9)
    offset = each_head(2, 64, 3, times=3.0) + each_head(2, 64, 3, add=290.0) + each_head(2, 64, 40, add=-7.0)
    lengths = [{"length": n, "put": [[0, 0]]} for n in (1, 63, 64, 65, 400)]
    plain = [
        case("ordinary", "normal numbers", tables={"v": table(1, kind="cubed")}, runs=[{}, HEAD]),
        case("lengths", "prompts around 64 tokens, whose sampled ones differ from all",
             tables={n: table(1, edit([0, 128], times=9.0)) for n in "kv"}, prompts=lengths),
        case("sinks", "the first token is 2000 times larger", tables={n: table(1, edit(0, times=2000.0)) for n in "kv"}),
        case("dead_channels", "channels of 0 and of 1e-9", tables={n: table(1, *dead) for n in "kv"}),
        case("offset_channels", "channels of 290 +- 3 and -7 +- 1", tables={n: table(1, *offset) for n in "kv"}),
        case("constant_channels", "channels that have one value", runs=[{}, HEAD],
             tables={n: table(1, *each_head(2, 64, [0, 40], set=8.5)) for n in "kv"}),
        case("signs", "nothing but +-1", tables={n: table(1, kind="signs") for n in "kv"}),
        case("tiny_beside_large", "half of the tokens a millionth of the others; the other half of a token's channels",
             tables={"k": table(30, edit([0, 128], times=1e-6)), "v": table(30, *each_head(2, 64, [0, 32], times=1e-6))}),
        case("zero_head", "head 1 is pruned", tables={n: table(1, edit(None, [64, 128], set=0.0)) for n in "kv"},
             runs=[{}, HEAD]),
        case("zero_tokens", "every other token is 0", tables={n: table(1, edit([0, 128], set=0.0)) for n in "kv"}),
        case("tiny", "everything near 1e-30", tables={n: table(1e-30) for n in "kv"}),
        case("odd_head_dim", "40 channels: a block of 8 remains", head_dim=40, tables={"v": table(1, kind="cubed")}),
        case("few_channels", "8 channels: half a block", head_dim=8),
        case("one_token", "a single row", prompts=[{"length": 1}]),
        case("one_head", "one head of 128 channels, of two magnitudes", heads=1, kv_heads=1, head_dim=128,
             tables={"v": table(1, edit(None, [0, 64], times=20.0))}),
        case("percentile", "scales that clip", tables={n: table(1, kind="cubed") for n in "kv"},
             runs=[{"policy": "percentile", "percentile": 99.0}]),
    ]
    latent = [
        latent_case("latent", "rows of MLA"),
        latent_case("latent_large_rope", "rope parts 300 times larger", tables={"row": table(1, edit(None, [64, 80], times=300.0))}),
        latent_case("latent_odd", "a block straddles the two parts", rank=40, turned=16),
    ]
    for seed, c in enumerate(plain + latent, start=1):
        c["sites"] = ["latent"] if c["class"] == "latent" else SITES
        c["seed"] = seed
    return plain + latent


# --- tables of numbers, each [rows, heads, channels] ---

def sampled(n):
    return np.arange(n) if n <= 64 else np.concatenate([[0], np.arange(1, 64) * (n - 1) // 63])


def stored_values(the_case, tables, site):
    """[tokens of the vocabulary, heads, channels]"""
    name = {"key": "k", "value": "v", "latent": "row"}[site]
    return from_bf16(tables[name]).reshape(N_TOKENS, the_case.get("kv_heads", 1), -1)


def parts_of(x, latent):
    """[rows, heads, channels] -> a list of heads [rows, channels]; of a latent row its parts."""
    if latent:
        return [x[:, 0, :latent], x[:, 0, latent:]]
    return [x[:, h] for h in range(x.shape[1])]


def worst(latent, x, stored, times):
    errors = []
    for a, b in zip(parts_of(x, latent), parts_of(stored, latent)):
        energy = (times[:, None] * a * a).sum()
        errors.append(float(np.sqrt((times[:, None] * (b - a) ** 2).sum() / energy)) if energy > 0 else 0.0)
    return max(errors)


# --- formats with several scales ---

def through(kind, x, largest):
    return np.clip(x, -largest, largest).astype(kind).astype(np.float64)


def divided(x, scale):
    return np.divide(x, scale, out=np.zeros_like(x), where=scale > 0)


def per_channel(x, absmax):
    scale = np.broadcast_to(absmax / 127, x.shape)
    return scale * np.rint(divided(x, scale))


def per_row(x):
    scale = np.broadcast_to(np.abs(x).max(-1, keepdims=True) / 448, x.shape)
    return scale * through(E4M3, divided(x, scale), 448)


def nvfp4(x, reach):
    """reach: of all numbers that share the global scale, broadcast over [rows, heads, 1]"""
    stored = np.zeros_like(x)
    unit = reach / (6 * 448)
    for first in range(0, x.shape[-1], 16):
        block = x[..., first:first + 16]
        scale = through(E4M3, divided(np.abs(block).max(-1, keepdims=True) / 6, unit), 448) * unit
        scale = np.broadcast_to(scale, block.shape)
        stored[..., first:first + 16] = scale * through(E2M1, divided(block, scale), 6)
    return stored


def hadamard(width):
    matrix = np.ones((1, 1))
    while len(matrix) < width:
        matrix = np.kron([[1, 1], [1, -1]], matrix)
    return matrix


def signs(width):
    drawn = torch.bernoulli(torch.full((width,), 0.5), generator=torch.Generator().manual_seed(0x9E3779B9))
    return 2.0 * drawn.double().numpy() - 1.0


def code(x):
    return np.clip(np.floor(x + np.float32(0.5)), 0, 15)


def int4_per_row(x):
    together = x.shape[-1] & -x.shape[-1]
    turn = hadamard(together) * signs(together)  # rows of it are what a block is multiplied by
    blocks = x.reshape(*x.shape[:-1], -1, together)
    turned = (blocks @ turn.T).reshape(x.shape).astype(ml_dtypes.bfloat16).astype(np.float32)
    least, most = turned.min(-1, keepdims=True), turned.max(-1, keepdims=True)
    step = np.maximum((most - least) / np.float32(15), np.float32(1e-6))
    zero, inverse = code(-least / step), np.float32(1) / step
    step_read = (step.view(np.uint32) & np.uint32(0xFFFFFFF0)).view(np.float32)
    read = ((code(turned * inverse + zero) - zero) * step_read).astype(np.float64)
    return (read.reshape(blocks.shape) @ turn / together).reshape(x.shape)


def power_of_two_above(x):
    mantissa, exponent = np.frexp(x)
    return np.where(x > 0, np.ldexp(1.0, exponent), 0.0)


# --- judgement ---

def judge_site(the_case, tables, site, run):
    latent = the_case.get("rank", 0)
    values, ids = stored_values(the_case, tables, site), prompts(the_case)
    times = np.bincount(np.concatenate(ids), minlength=N_TOKENS)
    x, times = values[times > 0], times[times > 0]
    errors = {}
    for name in STATIC:
        scale = site_scale([(x, times)], {**run, "dtype": name})
        errors[name] = worst(latent, x, round_trip(x, name, scale), times)
    errors["int8_per_channel"] = worst(latent, x, per_channel(x, np.abs(x).max(0)), times)
    rows = np.concatenate([values[p[sampled(len(p))]] for p in ids])
    once, reach = np.ones(len(rows)), np.abs(rows).max(-1, keepdims=True)
    errors["fp8_e4m3_per_row"] = worst(latent, rows, per_row(rows), once)
    if not latent:
        errors["int4_per_row"] = worst(latent, rows, int4_per_row(rows), once)
    errors["nvfp4"] = worst(latent, rows, nvfp4(rows, power_of_two_above(reach)), once)
    errors["nvfp4_of_the_cache"] = worst(latent, rows, nvfp4(rows, np.full_like(reach, np.abs(x).max())), once)
    errors["sampled_rows"] = len(rows)
    return errors


def truth_of(the_case):
    tables = build(the_case)
    with np.errstate(under="ignore"):
        runs = [{site: judge_site(the_case, tables, site, run) for site in the_case["sites"]} for run in the_case["runs"]]
    return {"name": the_case["name"], "sha256": fingerprint(tables),
            "runs": [{s: {k: float(f"{e:.6g}") for k, e in errors.items()} for s, errors in run.items()} for run in runs]}


def write_lines(path, objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects))


if __name__ == "__main__":
    all_cases = cases()
    FOLDER.mkdir(exist_ok=True)
    write_lines(FOLDER / "cases.jsonl", all_cases)
    write_lines(FOLDER / "errors.jsonl", [truth_of(c) for c in all_cases])
