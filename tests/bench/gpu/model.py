#!/usr/bin/env python3
"""model.py: how long a calibration of 512 x 2,048 tokens should take on one H200, by stage, from shapes and rates.

An estimate, not a measurement: tests/bench/NOTES.md has what an H200 took of it. Rates are stated below with where they come from;
instructions for a value are those of the machine code (kernels/README.md), before being the tree at 3671c1d. A stage takes as
long as its bytes, its instructions or its products, whichever is longest; a run as long as all stages together, or as its
weights take on their way, whichever is longer: they come while the layer before is computed. Prints a table; --json prints
the same.
"""

import json
import sys
from dataclasses import dataclass

TOKENS, LENGTH = 512 * 2048, 2048

# Rates of an H200.
GEMM = 790e12  # bf16 products, as the library makes them: measured on such a machine, 8192 x 8192 x 8192
BYTES = 4.3e12  # copies
ISSUE = 510e9 * 32  # lane instructions: 132 multiprocessors, 2.2 a clock, 1.755 GHz
# cuDNN, published, causal half counted; by the mean width of key and value (160: 192 and 128).
ATTENTION = {64: 310e12, 128: 540e12, 160: 560e12, 256: 500e12}
GROUPED = {"before": 365e12, "now": 500e12}  # measured on an H100: 608 where rows are gathered, 366 where f32 is written
GATHER = {"before": 4e9, "now": 40e9}  # bytes/s of embeddings: one thread and pageable memory; all threads, pinned
DISK, BUS = 7e9, 50e9  # bytes/s of weights: one NVMe drive of the fourth generation; PCIe 5 x 16, pinned memory
DECODED = 2.25e9  # bytes/s of values that 16 threads of the host made of FP8, and one copied behind them
START = 2.0  # seconds: context, library handles, the first weights

# Instructions for a value that is written.
INSTRUCTIONS = {
    "add and norm": {"before": 48, "now": 16},
    "heads": {"before": 100, "now": 25},
    "gated product": {"before": 45, "now": 22},
    "convolution": {"before": 165, "now": 24},
    "gated norm": {"before": 71, "now": 40},
    "combine": {"before": 25, "now": 25},
    "statistics": {"before": 30, "now": 30},
    "decoding": {"now": 30},  # on the device; by threads of the host before
}

# Sampled attention (kernels/sample_logits.cu, sample_outputs.cu), which the tree at 3671c1d did not have: of each prompt 64 rows,
# one in four of them thorough. In bf16 all of it is on tensor cores; what it takes is rounding on the way there, and
# exponentials. Clocks of a multiprocessor for a product of 16 x 8 x 16: the longest of 1.5 (630e12 a second), its instructions
# in the machine code where nothing is clipped, at 2.2 a clock, and its reads of shared memory at 128 bytes a clock.
SAMPLED_ROWS, THOROUGH_STEP, BLOCK = 64, 4, 64
RUNGS, QUERY_RUNGS = 4, 8  # at most, of ordinary rows: those of one walk, and of two
QUERY_WALKS = 2  # over the keys, each with the exact logits
PRODUCT = 16 * 8 * 16
CLOCKS = {
    "keys": 4.2 / 2.2,  # 20 products to 48 instructions that round
    "queries": 4.0 / 2.2,
    "exact keys": 4.0,  # a warp's 16 x 16: 1,024 bytes for two products
    "keys of 16 rows": 7.0 / 2.2,
    "values": 4.9 / 2.2,
    "moved weights": 1.5,
}
# Instructions of a lane for a pair of row and key, beside products: counted in the source. 5 for a logit and its
# exponential, 8 where it is compared, and 7 of a row's own for each four keys.
EPILOGUE = {"keys": 45, "queries": 100, "values": 8, "moved weights": 35}


@dataclass
class Model:
    name: str
    target: float  # seconds, spec of performance
    layers: int
    hidden: int
    products: float  # weights of dense products that a token meets, all layers
    efficiency: float  # of the library at these shapes, of GEMM
    experts: float = 0  # weights of experts that a token meets
    attention_layers: int = 0
    heads: tuple = (0, 0)  # query heads, the mean width of key and value
    cached: int = 0  # values that a token caches in a layer of attention
    queries: int = 0  # values of queries that are counted
    sampled: tuple = (0, 1, 0, 0)  # query heads, key-value heads, widths of key and value, as the cache has them
    gated: int = 0  # values of gated products of a token and layer
    choices: int = 0  # experts of a token
    conv: tuple = (0, 0)  # layers, channels
    recurrence: dict = None  # seconds of all delta rules, before and now
    absorbed: float = 0  # products for absorbed queries of MLA, weights a token meets
    gemm_shapes: int = 5  # whose algorithm is chosen
    stored: float = 0  # bytes of all layers in the files
    coded: float = 0  # weights of them that are codes with scales


# 20 layers, 32 heads of 128 x 128: instructions of a block for 16 rows; f32 before, in chunks on tensor cores now.
KIMI_DELTA = {when: TOKENS / 16 * 20 * 32 * n / (ISSUE / 32) for when, n in {"before": 470000, "now": 22000}.items()}

MODELS = [
    Model("Qwen3-8B", 22.5, 36, 4096, 6.95e9, 0.92, attention_layers=36, heads=(32, 128), cached=2048, queries=4096,
          sampled=(32, 8, 128, 128), gated=12288, stored=14.0e9),
    Model("Llama-3.3-70B", 209, 80, 8192, 68.45e9, 0.92, attention_layers=80, heads=(64, 128), cached=2048, queries=8192,
          sampled=(64, 8, 128, 128), gated=28672, stored=137e9),
    Model("Qwen3.5-35B-A3B", 12.1, 40, 2048, 1.43e9, 0.80, experts=1.01e9, attention_layers=10, heads=(16, 256), cached=1024, queries=4096,
          sampled=(16, 2, 256, 256), gated=9 * 512, choices=8, conv=(30, 8192), recurrence={"before": 1.9, "now": 1.3}, gemm_shapes=8, stored=67e9),
    Model("GLM-4.7-Flash", 15.8, 47, 2048, 1.53e9, 0.80, experts=1.73e9, attention_layers=47, heads=(20, 256), cached=576, queries=20 * 576,
          sampled=(20, 1, 576, 512), gated=5 * 1536, choices=4, absorbed=20 * 192 * 512 * 47, gemm_shapes=9, stored=59e9),
    Model("DeepSeek-V3", 133, 61, 7168, 14.2e9, 0.85, experts=21.5e9, attention_layers=61, heads=(128, 160), cached=576, queries=128 * 576,
          sampled=(128, 1, 576, 512), gated=9 * 2048, choices=8, absorbed=128 * 128 * 512 * 61, gemm_shapes=9, stored=669e9, coded=669e9),
    Model("Kimi-Linear-48B", None, 27, 2304, 1.26e9, 0.80, experts=1.47e9, attention_layers=7, heads=(32, 160), cached=576, queries=32 * 576,
          sampled=(32, 1, 576, 512), gated=9 * 1024, choices=8, conv=(20, 12288), recurrence=KIMI_DELTA, absorbed=32 * 128 * 512 * 7, gemm_shapes=10, stored=94e9),
]


def values(kind, when, count, bytes_of_value):
    """Seconds to write `count` values a token: by instructions or by bytes."""
    return TOKENS * max(count * INSTRUCTIONS[kind][when] / ISSUE, count * bytes_of_value / BYTES)


def met_keys(heads, kv_heads, step, tile):
    """Pairs of a query row and a key that a prompt's tiles of rows walk over: all up to the last key of any of their rows."""
    group = heads // kv_heads
    positions = [0] + [i * (LENGTH - 1) // (SAMPLED_ROWS - 1) for i in range(1, SAMPLED_ROWS)]
    rows = [p for p in positions[step - 1 :: step] for _ in range(group)]
    tiles = [max(rows[i : i + tile]) for i in range(0, len(rows), tile)]
    return kv_heads * sum(tile * BLOCK * (last // BLOCK + 1) for last in tiles)


def sampled_work(m):
    """Of a prompt and layer: kernel, multiply-adds, clocks of a multiprocessor, bytes that tiles read, mostly of the device's cache."""
    heads, kv_heads, key, value = m.sampled
    slices = 1 if value <= 128 else -(-value // 256)  # of values' columns: logits are made anew for each

    def work(kernel, step, tile, read, epilogue, **products):
        pairs = met_keys(heads, kv_heads, step, tile)
        clocks = sum(n / PRODUCT * CLOCKS[kind.replace("_", " ")] for kind, n in products.items()) + epilogue / 2.2 / 32
        return kernel, pairs * sum(products.values()), pairs * clocks, pairs / (tile * BLOCK) * read * 2

    outputs = slices * (32 + BLOCK) * key + BLOCK * value
    yield work("sample_logits_kernel<KeyForm>", 1, 64, (64 + BLOCK) * key, EPILOGUE["keys"], keys=(1 + RUNGS) * key)
    yield work("sample_outputs_kernel<ValueForm>", 1, 32, outputs, slices * EPILOGUE["values"],
               exact_keys=slices * key, values=(1 + RUNGS) * value)
    yield work("sample_outputs_kernel<KeyForm>", THOROUGH_STEP, 32, outputs, slices * EPILOGUE["moved weights"],
               keys_of_16_rows=slices * (1 + RUNGS) * key, moved_weights=RUNGS * value)
    yield work("sample_logits_kernel<QueryForm>", THOROUGH_STEP, 64, QUERY_WALKS * (64 + BLOCK) * key, EPILOGUE["queries"],
               queries=(QUERY_WALKS + QUERY_RUNGS) * key)


def sampled(m):
    """Seconds of sampled attention; its nine launches for a layer and batch (MLA: eight) take microseconds."""
    seconds = sum(max(clocks / (ISSUE / 32 / 2.2), bytes_ / BYTES) for _, _, clocks, bytes_ in sampled_work(m))
    return m.attention_layers * TOKENS / LENGTH * seconds


def stages(m, when):
    causal = 2 * m.heads[0] * 2 * m.heads[1] * LENGTH / 2
    yield "dense products", 2 * m.products * TOKENS / (m.efficiency * GEMM)
    yield "experts", 2 * m.experts * TOKENS / GROUPED[when]
    yield "attention", m.attention_layers * causal * TOKENS / ATTENTION[m.heads[1]]
    yield "recurrences", (m.recurrence or {}).get(when, 0.0)
    yield "absorbed queries", 2 * m.absorbed * TOKENS / (0.5 * GEMM)  # the observer counts them in both
    yield "convolution", values("convolution", when, m.conv[0] * m.conv[1], 4)
    yield "elementwise", sum(
        (
            values("add and norm", when, 2 * m.layers * m.hidden, 8),
            values("heads", when, m.attention_layers * (m.heads[0] * m.heads[1] + m.cached), 4),
            values("gated product", when, m.layers * m.gated, 6),
            values("gated norm", when, m.conv[0] * m.conv[1] // 2, 6),
            values("combine", when, m.layers * m.hidden * m.choices, 8),  # f32, written and read
            TOKENS * m.layers * m.hidden * 4 / BYTES,  # the residual stream, kept beside
        )
    )
    yield "statistics", values("statistics", when, m.attention_layers * (m.cached + m.queries), 2)
    if when == "now":
        yield "sampled attention", sampled(m)


def weights(m, when):
    """Seconds of each part of the way that weights take; they go on side by side."""
    yield "disk", m.stored / DISK
    yield "bus", (m.stored + (m.coded if when == "before" else 0)) / BUS
    yield "decoding", 2 * m.coded / DECODED if when == "before" else m.coded * INSTRUCTIONS["decoding"][when] / ISSUE


def start(m, when):
    """Seconds before and beside the steady layers."""
    embedding = TOKENS * m.hidden * 2 / GATHER[when]
    layer_batch = 2 * m.products * 262144 / m.layers / (m.efficiency * GEMM)  # all products of a layer, one full batch
    choosing = 54 * layer_batch if when == "before" else 0.05 * m.gemm_shapes  # 41 to 68 runs of each; at most 50 ms
    return START + embedding + choosing


def estimate(m):
    result = {"model": m.name, "target": m.target}
    for when in ("before", "now"):
        seconds, ways = dict(stages(m, when)), dict(weights(m, when))
        computed = {**seconds, "steady": sum(seconds.values()), "start": start(m, when)}
        longest = max(ways, key=ways.get)
        result[when] = {**computed, **{f"weights: {way}": s for way, s in ways.items()}}
        result[when]["steady, with weights"] = max(computed["steady"], ways[longest])
        result["bound by, " + when] = "products" if computed["steady"] >= ways[longest] else longest
    return result


def main():
    results = [estimate(m) for m in MODELS]
    if "--json" in sys.argv[1:]:
        print(json.dumps(results, indent=2))
        return
    print("| stage, seconds: before, now |" + "".join(f" {r['model']} |" for r in results))
    print("|---|" + "---|" * len(results))
    for stage in results[0]["now"]:
        print(f"| {stage} |" + "".join(f" {r['before'].get(stage, 0):.1f}, {r['now'][stage]:.1f} |" for r in results))
    print("| bound by |" + "".join(f" {r['bound by, before']}, {r['bound by, now']} |" for r in results))
    print("| target of steady |" + "".join(f" {r['target'] or '-'} |" for r in results))
    print("\n| sampled attention, of a prompt and layer | kernel | 10^9 multiply-adds | 10^6 clocks | GB read by tiles |\n|---|---|---|---|---|")
    for m in MODELS:
        for kernel, products, clocks, bytes_ in sampled_work(m):
            print(f"| {m.name} | `{kernel}` | {products / 1e9:.1f} | {clocks / 1e6:.1f} | {bytes_ / 1e9:.2f} |")


if __name__ == "__main__":
    main()
