"""Writes tests/unit/data/coverage/coverage.json: how often a new prompt exceeds the largest magnitude of n prompts, and
what can be said of that from these n alone. Needs nothing but Python.

    python make_coverage_goldens.py [--check]

Every case draws the largest magnitudes of n prompts many times and compares two statements with the truth, which is known
since the distribution is: `bound`, 1 / (n + 1), which assumes that prompts are exchangeable, and `estimate`, which also
assumes that the tail of the maxima goes on beyond the largest as it does among the largest (a power law). The script
fails where a statement does not hold that lib/solve/range_coverage.h makes. `one_prompt_alone` is the chance that the
largest maximum is more than `headroom` times the second: what lib/solve/dependence.h calls to depend on one prompt.
"""

import argparse
import math
import random
import struct
import sys
from pathlib import Path
from statistics import NormalDist

from json_lines import write_json

OUT = Path(__file__).resolve().parents[1] / "unit" / "data" / "coverage" / "coverage.json"
RUNS = 2000
RESOLUTION = 2.0 ** -8  # relative distance of neighbouring bf16 numbers, at most twice that


def bf16(x):
    """To the nearest bf16 number."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def estimate(maxima, headroom):
    """Chance that a further prompt exceeds headroom times the largest."""
    n = len(maxima)
    if n < 2:
        return None
    ranked = sorted(maxima, reverse=True)
    k = min(n - 1, math.ceil(math.sqrt(n)))
    if ranked[k] == 0:
        return 1 / (n + 1)
    spread = k * RESOLUTION + sum(math.log(x / ranked[k]) for x in ranked[:k])
    return (1 + math.log(headroom) / spread) ** -k / (n + 1)


# A distribution of one prompt's largest magnitude: (draw, chance to exceed x).


def largest_of(tokens, inverse, cdf):
    """Of so many independent values."""
    return (lambda r: inverse(r.random() ** (1 / tokens)), lambda x: 1 - cdf(x) ** tokens)


def pareto(alpha):
    return (lambda r: r.random() ** (-1 / alpha), lambda x: min(1.0, x ** -alpha))


def mixture(share, rare, common):
    """A share of the prompts is of another kind."""
    return (lambda r: rare[0](r) if r.random() < share else common[0](r),
            lambda x: share * rare[1](x) + (1 - share) * common[1](x))


def scaled(factor, of):
    return (lambda r: factor * of[0](r), lambda x: of[1](x / factor))


NORMAL = NormalDist()
LIGHT = largest_of(1e6, lambda u: NORMAL.inv_cdf(u), lambda x: NORMAL.cdf(x))
LAPLACE = largest_of(1e6, lambda u: -math.log(2 * (1 - u)), lambda x: 1 - math.exp(-x) / 2 if x > 0 else 0.5)
LOGNORMAL = largest_of(1e4, lambda u: math.exp(NORMAL.inv_cdf(u)), lambda x: NORMAL.cdf(math.log(x)))
BOUNDED = largest_of(100, lambda u: u, lambda x: min(x, 1.0))
LENGTHS = mixture(0.2, largest_of(1e6, NORMAL.inv_cdf, NORMAL.cdf), largest_of(100, NORMAL.inv_cdf, NORMAL.cdf))
DISTRIBUTIONS = {
    "bounded": BOUNDED, "normal": LIGHT, "lengths": LENGTHS, "laplace": LAPLACE, "lognormal": LOGNORMAL,
    "pareto_4": pareto(4), "pareto_2": pareto(2), "pareto_1": pareto(1),
    "one_in_50_eightfold": mixture(0.02, scaled(8, LIGHT), LIGHT),
    "one_in_500_eightfold": mixture(0.002, scaled(8, LIGHT), LIGHT),
}
POWER_LAWS = ("pareto_4", "pareto_2", "pareto_1")
MIXTURES = ("one_in_50_eightfold", "one_in_500_eightfold")


def simulate(name, n, headroom):
    draw, beyond = DISTRIBUTIONS[name]
    r = random.Random(f"{name} {n} {headroom}")
    truth = guess = plain = alone = 0.0
    sample = None
    for _ in range(RUNS):
        maxima = [bf16(draw(r)) for _ in range(n)]
        sample = sample or maxima
        largest = max(maxima)
        truth += beyond(headroom * largest) / RUNS
        plain += beyond(largest) / RUNS
        guess += estimate(maxima, headroom) / RUNS
        # Given the largest, the others are independent draws below it.
        alone += ((1 - beyond(largest / headroom)) / (1 - beyond(largest))) ** (n - 1) / RUNS
    case = {"distribution": name, "n": n, "headroom": headroom, "exceeds_absmax": plain, "bound": 1 / (n + 1),
            "exceeds_headroom": truth, "estimate": guess, "one_prompt_alone": alone}
    if headroom == 2:
        case |= {"sample": sample, "of_sample": estimate(sample, headroom)}
    return case


def check(case):
    """What lib/solve/range_coverage.h says of the two statements."""
    noise = 4 / math.sqrt(RUNS)  # four standard deviations of a mean whose spread is about its size
    at_most = lambda a, b: a <= b * (1 + noise) + 1e-12
    claims = [("a new prompt exceeds the largest at most once in n + 1", at_most(case["exceeds_absmax"], case["bound"])),
              ("and headroom times it more rarely", at_most(case["exceeds_headroom"], case["bound"]))]
    if case["distribution"] not in MIXTURES:
        claims.append(("the estimate is not below the truth", at_most(case["exceeds_headroom"], case["estimate"])))
    if case["distribution"] in ("bounded", "normal", "laplace") and case["headroom"] >= 2:
        claims.append(("one prompt is hardly ever alone by chance", case["one_prompt_alone"] < 0.005))
    if case["distribution"] in POWER_LAWS:
        factor = 3 if case["headroom"] <= 2 else 12
        claims.append(("nor far above it", case["estimate"] < factor * case["exceeds_headroom"]))
    for claim, holds in claims:
        if not holds:
            sys.exit(f"{case['distribution']}, n {case['n']}, headroom {case['headroom']}: not so: {claim}: " +
                     ", ".join(f"{k} {case[k]:.3g}" for k in ("bound", "exceeds_absmax", "exceeds_headroom", "estimate")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed file instead")
    args = parser.parse_args()
    cases = [simulate(name, n, h) for name in DISTRIBUTIONS for n in (16, 58, 124) for h in (1.2, 2.0, 4.0)]
    for case in cases:
        print(f"{case['distribution']:22} n {case['n']:4} h {case['headroom']:4}: beyond the largest "
              f"{case['exceeds_absmax']:.5f} (at most {case['bound']:.5f}), with headroom {case['exceeds_headroom']:.6f}, "
              f"estimate {case['estimate']:.6f}; one prompt alone {case['one_prompt_alone']:.2g}", flush=True)
    for case in cases:
        check(case)
    odd = [{"sample": s, "headroom": h, "of_sample": estimate(s, h)} for s, h in (
        ([1.0, 1.0], 2.0), ([2.0, 1.0], 2.0), ([1.0, 0.0, 0.0], 2.0), ([0.0, 0.0], 2.0), ([3.0] * 9, 1.0),
        ([8.0] + [1.0] * 15, 2.0), ([1.0], 2.0))]
    before = OUT.read_text() if args.check else None
    OUT.parent.mkdir(parents=True, exist_ok=True)
    write_json(OUT, {"runs": RUNS, "cases": cases, "odd": odd})
    if args.check and OUT.read_text() != before:
        sys.exit(f"{OUT} is not what this script makes")


if __name__ == "__main__":
    main()
