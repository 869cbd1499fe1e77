"""Cases drawn at random: wide ranges, mixtures, outlier channels, offsets, sinks, two kinds of tokens; not built to fail."""
import numpy as np

from case_words import FNUZ, FP8, HEAD, INT8, case, each_head, edit, latent_case, table

RUNS = [FP8] * 7 + [FNUZ, INT8, HEAD]
POLICIES = [{}] * 8 + [{"policy": "percentile", "percentile": 99.99}, {"policy": "mse"}]


class Dice:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def power(self, low, high):
        """10^uniform, three digits."""
        return float(f"{10 ** self.rng.uniform(low, high):.3g}")

    def below(self, n):
        return int(self.rng.integers(n))


def size(dice):
    return dice.power(-4, 2.5) if dice.chance(.4) else dice.power(-1, 1)


def kind(dice):
    return dice.pick([None] * 8 + ["cubed", "signs"])


def outliers(dice, heads, dim):
    """Edits of a stored table by channels, and for each the channels and factor that a reader may make up for."""
    stored, factors = [], []
    for low, high in ((.5, 4), (-8, -1)):
        if dice.chance(.25):
            first = dice.below(dim - 4)
            channels, factor = [first, first + 1 + dice.below(4)], dice.power(low, high)
            stored += each_head(heads, dim, channels, times=factor)
            factors.append((channels, factor))
    return stored, factors


def offsets(dice, heads, dim, sigma):
    if dice.chance(.2):
        return each_head(heads, dim, dice.below(dim), add=sigma * dice.power(0, 2.5))
    return [edit(add=sigma * dice.power(0, 1.5))] if dice.chance(.04) else []


def special_tokens(dice, heads, dim, sigma):
    """A first token of another size, whole or in a channel; tokens of two kinds."""
    edits = []
    if dice.chance(.15):
        edits.append(edit(0, times=dice.power(-3, 4)))
    if dice.chance(.15):
        edits += each_head(heads, dim, dice.below(dim), set=sigma * dice.power(0, 3), rows=0)
    if dice.chance(.15):
        edits.append(edit([128, 256], times=dice.power(-4, -.5)))
    return edits


def reader(dice, heads, dim, factors):
    """What queries or o_proj do about channels of another size: nothing, not read them, or make up for them."""
    edits = []
    for channels, factor in factors:
        power = dice.pick([0, -.5, -1, -1, None])
        edits += each_head(heads, dim, channels, times=0.0 if power is None else float(f"{factor ** power:.3g}"))
    return edits


def by_head(dice, kv, group, dim):
    """One head of another size; its readers may make up for it."""
    if kv == 1 or not dice.chance(.2):
        return [], []
    factor = dice.power(-4, 4)
    stored = [edit(None, [dim, 2 * dim], times=factor)]
    read = [edit(None, [group * dim, 2 * group * dim], times=1 / factor)] if dice.chance(.5) else []
    return stored, read


def pair_of_tables(dice, kv, group, dim, strength):
    """What is stored, and what reads it; read times stored is about `strength`."""
    sigma = size(dice)
    edits, factors = outliers(dice, kv, dim)
    heads, read_heads = by_head(dice, kv, group, dim)
    stored = table(sigma, *edits, *heads, *offsets(dice, kv, dim, sigma), *special_tokens(dice, kv, dim, sigma),
                   kind=kind(dice))
    read = table(strength / sigma, *reader(dice, kv * group, dim, factors), *read_heads)
    return stored, read


def own_kinds(dice, kv, group, dim, tables):
    """Tokens below 128 and the others look at their own kind only."""
    sigma_k, sigma_q = tables["k"]["sigma"], tables["q"]["sigma"]
    size_k = 8 * sigma_k
    size_q = 20 * dim ** .5 / size_k
    for name, heads, amount in (("k", kv, size_k), ("q", kv * group, size_q)):
        for rows, sign in (([0, 128], 1), ([128, 256], -1)):
            tables[name].setdefault("edits", []).extend(each_head(heads, dim, dim - 1, set=sign * amount, rows=rows))
    return sigma_q


def prompts(dice, longest):
    return [{"length": 50 + dice.below(longest - 50), "put": [[0, 0]]} for _ in range(2 + dice.below(3))]


def random_latent(dice, name):
    rank, nope, turned = 64, 32, 16
    gain = table(0, edit(set=size(dice)))
    scale = gain["edits"][0]["set"]
    if dice.chance(.3):
        gain["edits"].append(edit(None, dice.below(rank), times=dice.power(.5, 4)))
    rope = dice.power(-2, 2)
    tables = {"gain": gain, "kvb": table(.125 / scale), "q": table(dice.power(-.5, .7)),
              "row": table(1, edit(None, [rank, rank + turned], times=rope), kind=dice.pick([None, None, "cubed"]))}
    tables["q"]["edits"] = [edit(None, [h * (nope + turned) + nope, (h + 1) * (nope + turned)], times=1 / rope)
                            for h in range(4)]
    return latent_case(name, "", runs=[dice.pick(RUNS[:9])], prompts=prompts(dice, 200), tables=tables)


def random_case(seed, index):
    dice = Dice([seed, index])
    name = f"random_{seed}_{index}"
    form = dice.pick(["plain"] * 7 + ["rope", "latent", "capped", "sinks"])
    if form == "latent":
        return {**random_latent(dice, name), "seed": 1000 + index}
    kv, group, dim = dice.pick([1, 2, 2, 4]), dice.pick([1, 2, 4]), dice.pick([64, 64, 128])
    k, q = pair_of_tables(dice, kv, group, dim, dice.power(-.5, .9))
    v, o = pair_of_tables(dice, kv, group, dim, .0625)
    tables = {"k": k, "q": q, "v": v, "o": o}
    if dice.chance(.15):
        own_kinds(dice, kv, group, dim, tables)
    if form == "sinks":
        tables["sinks"] = table(1, edit(add=dice.power(-1, 1.3)))
    more = {"rope": {"theta": 10000.0}, "capped": {"cap": dice.power(.5, 2)}}.get(form, {})
    if form == "plain" and dice.chance(.2):
        more = {"window": 16 + dice.below(100)}
    return {**case(name, "", **{"class": form, "heads": kv * group, "kv_heads": kv, "head_dim": dim}, tables=tables,
                   prompts=prompts(dice, 250 if form == "rope" else 400), runs=[{**dice.pick(RUNS), **dice.pick(POLICIES)}],
                   **more), "seed": 1000 + index}
