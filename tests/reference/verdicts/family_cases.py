"""Cases drawn at random from families that are built to mislead a judge: what rows share hides what tells them apart."""
from case_words import case, each_head, edit, table
from random_cases import RUNS, Dice
from value_cases import unread

KV, HEADS, DIM = 2, 4, 64
HALVES = ([0, 128], [128, 256])


def own_kind(strength=8.0):
    """Tokens below 128 look at each other, and so do the rest."""
    size = {"k": 16.0, "q": strength * DIM ** .5 / 16}
    sign = list(zip(HALVES, (1, -1)))
    return {name: table(1, *[e for rows, s in sign for e in each_head(n, DIM, 0, set=s * size[name], rows=rows)])
            for name, n in (("k", KV), ("q", HEADS))}


def chats(dice, **more):
    return [{"length": 60 + dice.below(240), "put": [[0, 0]], **more} for _ in range(3)]


def offset(dice, sigma):
    return sigma * dice.power(.3, 2.2) * dice.pick([1, -1])


def sink(dice, sigma):
    """A first token of another size, which nobody looks at."""
    v = table(sigma, edit(add=offset(dice, sigma)), edit(0, times=dice.power(.3, 3.5)))
    return {"tables": {"v": v, **unread()}, "prompts": chats(dice)}


def read_sink(dice, sigma):
    return {**sink(dice, sigma), "tables": {"v": sink(dice, sigma)["tables"]["v"]}}


def several_sinks(dice, sigma):
    """The first tokens are sinks; each of another size, and of another sign perhaps."""
    n = 2 + dice.below(6)
    shared = offset(dice, sigma)
    large = [edit(t, times=dice.power(.5, 3) * dice.pick([1, -1])) for t in range(n)]
    away = [e for heads, name in ((KV, "k"),) for e in each_head(heads, DIM, 0, set=-20.0, rows=[0, n])]
    keys = {"k": table(1, *each_head(KV, DIM, 0, set=0.0), *away), "q": table(1, *each_head(HEADS, DIM, 0, set=16.0))}
    prompts = [{"length": 80 + dice.below(220), "tokens": [n, 256], "put": [[t, t] for t in range(n)]} for _ in range(3)]
    return {"tables": {"v": table(sigma, edit(add=shared), *large), **keys}, "prompts": prompts}


def two_sizes(dice, sigma):
    """Two kinds of tokens around offsets of different sizes, which look at their own or at all."""
    edits = [edit(rows, add=offset(dice, sigma)) for rows in HALVES]
    v = table(sigma, *edits, edit(HALVES[1], times=dice.power(-3, -.6)))
    return {"tables": {"v": v, **(own_kind() if dice.chance(.7) else {})}, "prompts": chats(dice)}


def two_signs(dice, sigma):
    """Two kinds of tokens around offsets of opposite sign, alike in all else."""
    shared = offset(dice, sigma)
    v = table(sigma, edit(HALVES[0], add=shared), edit(HALVES[1], add=-shared))
    return {"tables": {"v": v, **(own_kind() if dice.chance(.7) else {})}, "prompts": chats(dice)}


def two_prompts(dice, sigma):
    """Prompts of one kind of tokens each."""
    shared, other = offset(dice, sigma), dice.power(-2, 0)
    v = table(sigma, edit(add=shared), edit(HALVES[1], times=other))
    prompts = [{"length": 60 + dice.below(240), "tokens": tokens} for tokens in (*HALVES, *HALVES)]
    return {"tables": {"v": v}, "prompts": prompts}


def drift(dice, sigma):
    """The offset grows with the position: tokens come in their order, and see few before them."""
    first, last = sorted((abs(offset(dice, sigma)), abs(offset(dice, sigma))))
    steps = 32
    v = table(sigma, *[edit([8 * i, 8 * i + 8], add=first + (last - first) * i / steps) for i in range(steps)])
    prompts = [{"length": 256, "put": [[t, 8 * (t // 8) + dice.below(8)] for t in range(256)]} for _ in range(3)]
    return {"tables": {"v": v}, "prompts": prompts, "window": 8 + dice.below(24)}


def copies(dice, sigma):
    """Heads that read the same values, of which the output takes the difference."""
    signs = [edit([2 * c, 2 * c + 2], h * DIM + c, set=.125 * (1 - 2 * (h % 2))) for h in range(HEADS) for c in range(DIM)]
    v = table(sigma, edit(add=offset(dice, sigma)), *([edit(0, times=dice.power(.3, 3))] if dice.chance(.5) else []))
    return {"tables": {"v": v, "q": table(dice.power(-.5, .7)), "o": table(0, *signs)}, "prompts": chats(dice)}


def one_bit(dice, sigma):
    """Values of two sizes or signs, around an offset or none."""
    around = dice.pick([0.0, offset(dice, sigma)])
    v = table(sigma, edit(add=around), *([edit(0, times=dice.power(.3, 3))] if dice.chance(.6) else []), kind="signs")
    return {"tables": {"v": v, **dice.pick([{}, unread(), own_kind()])}, "prompts": chats(dice)}


FAMILIES = [sink, read_sink, several_sinks, two_sizes, two_signs, two_prompts, drift, copies, one_bit]


def family_case(seed, index):
    dice = Dice([seed, index, 1])
    family = FAMILIES[index % len(FAMILIES)]
    given = family(dice, dice.power(-3, 2))
    return {**case(f"{family.__name__}_{seed}_{index}", "", ["value"], runs=[dice.pick(RUNS)], **given), "seed": 1000 + index}
