#!/usr/bin/env python3
"""model.py: seconds of a calibration of 512 x 2,048 tokens, two passes, against the number of ranks, and from where more
gain little. An estimate from rates: of merging measured by merge_bench, of products those of tests/bench/NOTES.md; file system
and network are assumptions, stated below. A rank is a machine of 64 threads that reads all weights. Prints the table of
docs/clusters.md; --check FILE says whether that file has it."""

import math
import sys
from dataclasses import dataclass

TOKENS, SEQUENCES = 2 * 512 * 2048, 1024
EXTRA = 256  # tokens that every rank runs besides its own: the sanity check
RANKS = [1, 4, 16, 64, 256, 1024]
THREADS = 64

# Measured on two cores of a Zen 4 (AVX-512 BF16): products of a thread, and the share of them that a whole run reaches.
PRODUCTS, WHOLE_RUN = 215e9, 0.85
START = 3.0  # seconds: program, tokenizer and prompts on rank 0, then on the others; headers of weights
# Assumed, bytes a second: what a machine reads, what all machines together read, what a link between two carries.
READ, READ_BY_ALL, LINK = 2e9, 40e9, 5e9


@dataclass
class Merging:
    """Of the tables of a part; the merged ones are not much larger. Measured by merge_bench with one thread."""

    megabytes: float
    seconds: float  # packing on one side; unpacking, checking and merging on the other


@dataclass
class Model:
    name: str
    parameters: float  # that are stored
    active: float  # that a token meets
    bytes_each: float
    merging: Merging

    def reading(self, ranks):
        return self.parameters * self.bytes_each / min(READ, READ_BY_ALL / ranks)

    def products(self, ranks):
        tokens = math.ceil(SEQUENCES / ranks) / SEQUENCES * TOKENS + EXTRA
        return 2 * self.active * tokens / (PRODUCTS * WHOLE_RUN * THREADS)

    def reducing(self, ranks):
        steps = math.ceil(math.log2(ranks)) if ranks > 1 else 0
        return steps * (self.merging.seconds + self.merging.megabytes * 1e6 / LINK)

    def seconds(self, ranks):
        # The next layer is read while one computes.
        return START + max(self.reading(ranks), self.products(ranks)) + self.reducing(ranks)

    def enough(self):
        """The first power of two from which twice the ranks make it no more than a tenth faster."""
        ranks = 1
        while ranks < RANKS[-1] and self.seconds(2 * ranks) < 0.9 * self.seconds(ranks):
            ranks *= 2
        return ranks

    def limit(self, ranks):
        parts = {"reading": self.reading(ranks), "products": self.products(ranks), "merging": self.reducing(ranks)}
        return max(parts, key=parts.get)


# Statistics as measured: merge_bench 28 16 8 128; 36 32 8 128; 80 64 8 128; 126 128 8 128; 61 128 1 128 512 (layers, heads, widths).
MODELS = [
    Model("Qwen3-0.6B", 0.6e9, 0.44e9, 2, Merging(50, 0.30)),
    Model("Qwen3-8B", 8.2e9, 6.95e9, 2, Merging(85, 0.58)),
    Model("Llama-3.3-70B", 70.6e9, 68.5e9, 2, Merging(278, 1.83)),
    Model("Llama-3.1-405B", 405e9, 401e9, 2, Merging(722, 6.1)),
    Model("DeepSeek-V3 (671B, FP8)", 671e9, 37e9, 1, Merging(758, 12.5)),
]


def duration(seconds):
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def table():
    lines = ["| model | " + " | ".join(f"{n:,}" for n in RANKS) + " | enough | then mostly |"]
    lines.append("|" + "---|" * (len(RANKS) + 3))
    for m in MODELS:
        cells = [duration(m.seconds(n)) for n in RANKS]
        lines.append("| " + " | ".join([m.name] + cells + [f"{m.enough():,}", m.limit(m.enough())]) + " |")
    return "\n".join(lines) + "\n"


def main(arguments):
    if arguments[:1] == ["--check"]:
        with open(arguments[1]) as file:
            if table() not in file.read():
                sys.exit(f"{arguments[1]} does not have this table:\n{table()}")
    else:
        print(table(), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
