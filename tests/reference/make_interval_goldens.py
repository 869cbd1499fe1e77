"""Writes tests/unit/data/intervals.json: what evaluate concludes from tokens of prompts, by numpy alone.

    python make_interval_goldens.py [--check]   compares with the committed file: intervals come from draws
    python make_interval_goldens.py --coverage  how often the interval holds the truth, where that is known
    python make_interval_goldens.py --looks     how often --until-decided errs, and what a number of further prompts is worth

Tokens are counted here over sets of beginnings, intervals by multinomial draws of numpy's own generator, 400,000 of them,
and Student's t by integrating its density; lib/evaluate sorts prompts, draws by counters and expands t.
"""

import argparse
import functools
import json
import math
from pathlib import Path

import numpy as np

OUT = Path(__file__).resolve().parents[1] / "unit" / "data" / "intervals.json"
FEWEST = {1: 6, 4: 9}  # groups, by looks: all on one side as often as the interval misses, at most
TOP_CHANGES = 35  # thousandths of a nat, above which the likeliest token is another
DRAWS = 400_000
LOOKS = 4  # of which one golden is


def student(freedom, share=0.975):
    """t below which this share lies."""
    x = np.linspace(0, 20, 2_000_001)
    log_density = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    density = np.exp(log_density - (freedom + 1) / 2 * np.log1p(x * x / freedom))
    below = 0.5 + np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)]) * (x[1] - x[0])
    return x[np.searchsorted(below, share)]


@functools.cache
def tail(n, looks=1):
    return 0.5 * math.erfc(math.sqrt(n / (n - 1)) * student(n - 1, 1 - (0.025 if looks == 1 else 0.025 / (3 * looks))) / math.sqrt(2))


def interval(sums, counts, fixed, rng, draws=DRAWS, below=None):
    n = len(sums)
    below = tail(n) if below is None else below
    ratios = []
    for _ in range(max(1, draws // 20_000)):
        times = rng.multinomial(n, np.full(n, 1 / n), size=min(draws, 20_000))
        ratios.append((times @ sums + fixed[0]) / (times @ counts + fixed[1]))
    return np.quantile(np.concatenate(ratios), [below, 1 - below])


def wilson(share, n):
    z = 1.959963984540054
    middle, root = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.clip(np.array([middle - root, middle + root]) / (1 + z * z / n), 0, 1)


def groups_of(prompts):
    """Of every beginning of a prompt the group that it belongs to, -1 for that of several groups."""
    everyone = range(len(prompts))
    having = {}  # beginning -> prompts with it
    for i in everyone:
        for n in range(1, len(prompts[i]) + 1):
            having.setdefault(tuple(prompts[i][:n]), set()).add(i)
    group_of, n_groups = {}, 0

    def divide(members, shared):
        nonlocal n_groups
        together = shared
        first = prompts[min(members)]
        while together < len(first) and having[tuple(first[:together + 1])] >= members:
            together += 1
        own = sum(len(prompts[i]) - together for i in members)
        whole = members == set(everyone) and shared == 0
        if len(members) == 1 or own == 0 or (not whole and len(members) * (together - shared) > own):
            for i in members:
                for n in range(shared + 1, len(prompts[i]) + 1):
                    group_of[tuple(prompts[i][:n])] = n_groups
            n_groups += 1
            return
        for n in range(shared + 1, together + 1):
            group_of[tuple(first[:n])] = -1
        for following in sorted({tuple(prompts[i][:together + 1]) for i in members if len(prompts[i]) > together}):
            divide(having[following] & members, together)

    divide(set(everyone), 0)
    return group_of, n_groups


def conclude(prompts, values, rng, share=False, weights=None, looks=1):
    """values: of each beginning; weights: what their sum is divided by, else 1 each."""
    weight = (lambda beginning: 1) if weights is None else weights.__getitem__
    group_of, n_groups = groups_of(prompts)
    sums, counts, tokens, fixed = np.zeros(n_groups), np.zeros(n_groups), np.zeros(n_groups), np.zeros(2)
    for beginning, group in group_of.items():
        if group < 0:
            fixed += [values[beginning], weight(beginning)]
        else:
            sums[group] += values[beginning]
            counts[group] += weight(beginning)
            tokens[group] += 1
    value = (sums.sum() + fixed[0]) / (counts.sum() + fixed[1])
    found = {"value": round(float(value), 9)}
    sums, counts = sums[tokens > 0], counts[tokens > 0]
    if len(sums) >= FEWEST[looks]:
        ends = interval(sums, counts, fixed, rng, below=tail(len(sums), looks))
        if share:
            least = wilson(value, len(group_of))
            ends = np.array([min(ends[0], least[0]), max(ends[1], least[1])])
        found["interval"] = [round(float(x), 6) for x in ends]
    return found, sums


def slope(prompts, values, rng):
    """KL by position, each prompt about its own means, over beginnings of one group that no prompt sorted before it has.
    A first token reads no stored state."""
    group_of, n_groups = groups_of(prompts)
    sums, squares, seen = np.zeros(n_groups), np.zeros(n_groups), set()
    for prompt in sorted(prompts):
        beginnings = [tuple(prompt[:n + 1]) for n in range(len(prompt))]
        own = [b for b in beginnings[1:] if b not in seen and group_of[b] >= 0]
        seen.update(beginnings)
        if len(own) > 1:
            x, y = np.array([len(b) for b in own], float), np.array([values[b] for b in own]) / 1000
            sums[group_of[own[0]]] += len(x) * np.cov(x, y, bias=True)[0, 1] * 1000
            squares[group_of[own[0]]] += len(x) * np.var(x)
    sums, squares = sums[squares > 0], squares[squares > 0]
    if len(sums) == 0:
        return None
    found = {"value": round(float(sums.sum() / squares.sum()), 9)}
    if len(sums) >= FEWEST[1]:
        found["interval"] = [round(float(x), 6) for x in interval(sums, squares, (0, 0), rng)]
    return found


def random_prompts(rng, n, beginning=(), low=2, high=9):
    return [list(beginning) + rng.integers(0, 90, rng.integers(low, high)).tolist() for _ in range(n)]


def sets_of_prompts(rng):
    system, other = [91, 92, 93, 94], [95, 96]
    independent = random_prompts(rng, 9)
    talk = random_prompts(rng, 1, low=15, high=16)[0]
    return {
        "independent": independent,
        "one system prompt": random_prompts(rng, 12, system),
        "two system prompts and a text": random_prompts(rng, 5, system) + random_prompts(rng, 5, other)
                                         + random_prompts(rng, 1),
        "every prompt twice": random_prompts(rng, 7) * 2,
        "all the same": [talk[:5]] * 8,
        "a talk at its turns, and others": [talk[:5], talk[:10], talk] + random_prompts(rng, 7),
        "the beginning of another": [talk[:4], talk],
        "one token each": [[i] for i in (3, 1, 2, 8, 7, 9, 4)],
        "two": random_prompts(rng, 2),
        "one": random_prompts(rng, 1),
        "a long system prompt": random_prompts(rng, 8, talk, 1, 4),
        "words alike": [[1, 2] + p for p in random_prompts(rng, 3)] + [[1, 3] + p for p in random_prompts(rng, 4)],
    }


def golden():
    rng, rng_of_times, rng_of_slopes = (np.random.default_rng(seed) for seed in (47, 51, 53))
    cases = []
    for name, prompts in sets_of_prompts(rng).items():
        group_of, n_groups = groups_of(prompts)
        # Thousandths of a nat; one variant is a little worse.
        one = {b: int(x) for b, x in zip(group_of, rng.lognormal(3, 0.7, len(group_of)))}
        file = {b: max(0, x + int(d)) for (b, x), d in zip(one.items(), rng.normal(3, 6, len(group_of)))}
        of_prompts = lambda values: [[values[tuple(p[:n + 1])] for n in range(len(p))] for p in prompts]
        kl, _ = conclude(prompts, {b: x / 1000 for b, x in file.items()}, rng)
        top1, _ = conclude(prompts, {b: int(x <= TOP_CHANGES) for b, x in file.items()}, rng, share=True)
        pair, sums = conclude(prompts, {b: (file[b] - one[b]) / 1000 for b in one}, rng)
        times, _ = conclude(prompts, file, rng_of_times, weights=one)
        looked, _ = conclude(prompts, {b: x / 1000 for b, x in file.items()}, rng_of_times, looks=LOOKS)
        cases.append({"name": name, "prompts": prompts, "one": of_prompts(one), "file": of_prompts(file),
                      "n_groups": n_groups, "n_counted": len(group_of),
                      "kl": kl, "top1": top1, "pair": pair, "times": times, "looked": looked,
                      "kl_slope": slope(prompts, file, rng_of_slopes),
                      "n_worse": int((sums > 1e-9).sum()), "n_better": int((sums < -1e-9).sum())})
    return cases


def check():
    ours, committed = golden(), json.loads(OUT.read_text())
    assert json.loads(json.dumps(ours)) == committed, "differs"


def coverage(runs=2000, draws=2000):
    """Of prompts of 20 to 200 tokens: how often 95 % intervals hold what 400,000 prompts have."""
    rng = np.random.default_rng(5)

    def kl(sigma):
        def draw(n):
            counts = rng.integers(20, 201, n).astype(float)
            return rng.lognormal(0, sigma, n) * counts * 0.01, counts
        return draw

    def agreement(n):
        counts = rng.integers(20, 201, n)
        return rng.binomial(counts, rng.beta(95, 5, n)).astype(float), counts.astype(float)

    def pair(n):
        counts = rng.integers(20, 201, n).astype(float)
        return rng.normal(0.001, 0.02, n) * np.sqrt(counts), counts

    def slope(growth, pool=20_000):
        """KL whose mean grows by so many times the first within 100 tokens, prompts within 2 times, of skewed and alike neighbours."""
        sums, squares = np.zeros(pool), np.zeros(pool)
        for i in range(pool):
            noise = rng.normal(size=rng.integers(20, 201))
            for t in range(1, len(noise)):
                noise[t] = 0.8 * noise[t - 1] + 0.6 * noise[t]
            x = np.arange(len(noise)) - (len(noise) - 1) / 2
            sums[i] = x @ (rng.lognormal(0, 0.35) * np.exp(1.5 * noise - 1.125) * (1 + growth * np.arange(len(noise)) / 100))
            squares[i] = x @ x

        def draw(n):
            drawn = rng.integers(0, pool, n)
            return sums[drawn], squares[drawn]
        return draw

    for name, draw in (("KL, prompts within 2 times", kl(0.35)), ("KL, within 4 times", kl(0.7)),
                       ("KL, within 8 times", kl(1.05)), ("difference of KL", pair), ("same top token", agreement),
                       ("slope of a KL that stays", slope(0)), ("slope, it doubles in 100 tokens", slope(1))):
        sums, counts = draw(400_000)
        truth = sums.sum() / counts.sum()
        line = []
        for n in (6, 12, 20, 58, 124):
            below, held, passed = tail(n), 0, 0
            for _ in range(runs):
                sums, counts = draw(n)
                low, high = interval(sums, counts, (0, 0), rng, draws, below)
                if name == "same top token":
                    least = wilson(sums.sum() / counts.sum(), counts.sum())
                    low, high = min(low, least[0]), max(high, least[1])
                held += low <= truth <= high
                passed += low > truth if name == "same top token" else high < truth
            line.append(f"{n}: {100 * held / runs:.1f} % ({100 * passed / runs:.1f} % too good)")
        print(f"{name}: " + ", ".join(line), flush=True)


def looks_at(n):
    sizes = [48 * 2 ** i for i in range(20) if 72 * 2 ** i < n]
    return [*sizes, n]


def looks(runs=1000, draws=2000):
    """The limit is the truth itself, so that every decision is an error; 5 % of the runs may end with one."""
    rng = np.random.default_rng(6)
    for sigma, name in ((0.35, "2"), (0.7, "4"), (1.05, "8")):
        truth = math.exp(sigma ** 2 / 2)
        for n in (96, 192, 384):
            wrong, at = {"passed": 0, "broken": 0}, looks_at(n)
            for _ in range(runs):
                counts = rng.integers(20, 201, n).astype(float)
                sums = rng.lognormal(0, sigma, n) * counts
                for m in at:
                    low, high = interval(sums[:m], counts[:m], (0, 0), rng, draws, tail(m, len(at)))
                    if not low <= truth <= high:
                        wrong["passed" if high < truth else "broken"] += 1
                        break
            print(f"most prompts within {name} times, looks at {at}: {100 * sum(wrong.values()) / runs:.1f} % decided wrongly, "
                  f"{100 * wrong['passed'] / runs:.1f} % passed", flush=True)
    enough(rng, runs, draws)


def enough(rng, runs, draws):
    """Of 24 prompts whose interval holds the limit, the truth .85 of it: how often as many more as are said to decide do."""
    for sigma in (0.35, 0.7):
        said, decided, right = [], 0, 0
        for _ in range(runs):
            counts = rng.integers(20, 201, 20_000).astype(float)
            sums = rng.lognormal(0, sigma, len(counts)) * counts
            limit, n = math.exp(sigma ** 2 / 2) / 0.85, 24
            value = sums[:n].sum() / counts[:n].sum()
            low, high = interval(sums[:n], counts[:n], (0, 0), rng, draws)
            if not low <= limit <= high:
                continue
            ratio = (value - low if limit < value else high - value) / abs(limit - value)
            more = max(1, math.ceil(n * ratio ** 2 - n))
            said.append(more)
            if n + more > len(counts):
                continue
            low, high = interval(sums[:n + more], counts[:n + more], (0, 0), rng, min(draws, 500))
            decided += not low <= limit <= high
            right += high < limit
        print(f"24 prompts within {2 if sigma < .5 else 4} times left {len(said)} of {runs} undecided: {np.median(said):.0f} more are "
              f"said to decide (median); with them {100 * decided / len(said):.0f} % are decided, {100 * right / len(said):.0f} % rightly")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--coverage", action="store_true")
    arguments.add_argument("--looks", action="store_true")
    given = arguments.parse_args()
    if given.coverage:
        coverage()
    elif given.looks:
        looks()
    elif given.check:
        check()
    else:
        lines = (json.dumps(case, separators=(",", ":")) for case in golden())
        OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n")
