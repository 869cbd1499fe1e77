"""Cases that each hold a part of the rule that no other case holds; tests/verdicts/parts.toml names the parts."""
from case_words import FNUZ, FP8, HEAD, INT8, case, each_head, edit, latent_case, table
from key_cases import percentile
from random_cases import random_case
from value_cases import own_kind, unread

V, K, ROW = ["value"], ["key"], ["latent"]
RARE = [{"length": 300, "tokens": [1, 255], "put": [[0, 0]]} for _ in range(3)] + [
    {"length": 300, "tokens": [1, 255], "put": [[0, 0], [10, 255]]}]


def chats(*lengths):
    return [{"length": n, "put": [[0, 0]]} for n in lengths]


def of(name, about, sites, runs=(FP8,), more=None, **tables):
    return case(name, about, sites, runs=list(runs), tables=tables, **(more or {}))


def kinds_of_tokens(heads, size):
    """A channel that is positive in one half of the tokens and negative in the other."""
    return [e for rows, sign in (([0, 128], 1), ([128, 256], -1)) for e in each_head(heads, 64, 63, set=sign * size, rows=rows)]


VALUES = [
    of("v_offset_216", "a channel at 215.7 +- .9: a border of two cells goes through it at 1.0, none at the scale", V,
       v=table(.9, *each_head(2, 64, 3, add=215.7))),
    of("v_offset_two_values", "a channel at 213 or 215, which is one cell both at the scale and at 1.0", V,
       v=table(1, *each_head(2, 64, 3, add=214.0), kind="signs")),
    of("v_constant_700", "a channel of 700 in every token: 1.0 takes a third of it away, from all alike", V,
       v=table(1, *each_head(2, 64, 3, set=700.0))),
    of("v_second_head_offset", "a channel at 290 +- 3 in the second head only", V,
       v=table(.3, edit(None, 67, times=10.0), edit(None, 67, add=290.0))),
    of("v_second_head_counts", "heads of 1 and .02: o_proj makes up for it; 1.0 harms the second", V,
       v=table(1, edit(None, [64, 128], times=.005)), o=table(.0625, edit(None, [128, 256], times=2e3))),
    of("v_rare_token", "the values of a token that one prompt of four holds drown all others; who sees it sees nothing else", V,
       more={"prompts": RARE}, v=table(1, edit(255, times=1e5)),
       k=table(1, *each_head(2, 64, 0, set=0.0), *each_head(2, 64, 0, set=60.0, rows=255)),
       q=table(1, *each_head(4, 64, 0, set=10.0))),
    of("v_nearly_subnormal", "a large channel that nobody reads, the others are subnormal beside it, but not much", V,
       v=table(.00131, *each_head(2, 64, [18, 20], times=7600.0)),
       o=table(47.7, *each_head(4, 64, [18, 20], times=0.0))),
]

KEYS = [
    of("k_sharp_0165", "logits of sigma 6, keys that are a little subnormal at 1.0: worse, but not clearly", K,
       k=table(.0165), q=table(364)),
    of("k_at_131_int8", "the winner is 80 nats ahead; the scale is 1.03, and 1.0 clips next to nothing", K, runs=[INT8],
       k=table(5, *each_head(2, 64, 7, set=0.0), *each_head(2, 64, 7, set=131.0, rows=0)),
       q=table(2, *each_head(4, 64, 7, set=5.0))),
    of("k_sigma_008", "keys half subnormal at 1.0 in attention that hardly feels it", K, k=table(.008), q=table(250)),
]


def each_query(columns, **operation):
    return [edit(None, [h * 48 + columns[0], h * 48 + columns[1]], **operation) for h in range(4)]


LONG = [{"length": 2000, "put": [[0, 0]]}]


def of_rows(name, about, **given):
    return latent_case(name, about, ROW, **given)


ROWS = [
    of_rows("l_sharp_latent", "queries that are long for the latent part",
            tables={"q": table(60, *each_query([32, 48], times=.01))}),
    of_rows("l_sharp_rope", "queries that are long for the rope part",
            tables={"q": table(1, *each_query([32, 48], times=60.0))}),
    of_rows("l_sink_rope", "a sink of 1500 in a slow pair of the rope part: one value of 2000 tokens", prompts=LONG,
            tables={"row": table(1, edit(None, [78, 80], set=0.0), edit(0, 78, set=1500.0)),
                    "q": table(1, *each_query([46, 47], set=.06), *each_query([47, 48], set=0.0))}),
    of_rows("l_sink_latent", "the same in a latent channel", prompts=LONG,
            tables={"row": table(1, edit(None, 7, times=1e-3), edit(0, 7, set=100.0)),
                    "gain": table(0, edit(set=1.0), edit(None, 7, set=190.0)),
                    "kvb": table(.125, edit(None, 7, set=0.0), *[edit(h * 64, 7, set=.06) for h in range(4)]),
                    "q": table(1, *each_query([0, 1], set=1.0))}),
]

CLIPPED = [
    of_rows("l_rope_clipped", "a sink of 40 in a slow pair of the rope part is clipped on purpose", runs=[percentile(99.9)],
            tables={"row": table(1, edit(None, [78, 80], set=0.0), edit(0, 78, set=40.0), kind="signs"),
                    "q": table(1, *each_query([46, 47], set=.22), *each_query([47, 48], set=0.0))}),
    of_rows("l_latent_clipped", "the same in a latent channel", runs=[percentile(99.9)],
            tables={"row": table(1, edit(None, 7, times=1e-3), edit(0, 7, set=20.0), kind="signs"),
                    "gain": table(0, edit(set=1.0), edit(None, 7, set=40.0)),
                    "kvb": table(.125, edit(None, 7, set=0.0), *[edit(h * 64, 7, set=.06) for h in range(4)]),
                    "q": table(1, *each_query([0, 1], set=.5))}),
    of("k_mildly_clipped", "the scale clips a sink a little, the rung below it a lot", K, runs=[percentile(99.99)],
       more={"heads": 4, "kv_heads": 1, "head_dim": 128, "prompts": [{"length": 4000, "put": [[0, 0]]}]},
       k=table(58, edit(None, 7, set=0.0), edit(0, 7, set=240.0)), q=table(.02, *each_head(4, 128, 7, set=.22))),
]

GRIDS = [
    of("k_fnuz_subnormal", "subnormal both at the scale and at 1.0 in a format of another bias", K, runs=[FNUZ],
       k=table(.02, *each_head(2, 64, 2, magnitude=240.0)), q=table(100, *each_head(4, 64, 2, set=0.0))),
    of("k_at_524_int8", "the winner is 650 nats ahead; the scale is 4.13, the rung above it rounds the others away", K,
       runs=[INT8], k=table(20, *each_head(2, 64, 7, set=0.0), *each_head(2, 64, 7, set=524.0, rows=0)),
       q=table(.5, *each_head(4, 64, 7, set=1.25))),
    of("k_rare_unread_token", "one prompt of four holds a key 15 times as large, in a channel that nobody reads", K,
       more={"prompts": RARE}, k=table(1, *each_head(2, 64, [7, 9], set=0.0), *each_head(2, 64, 7, set=131.0, rows=0),
                                       *each_head(2, 64, 8, set=2000.0, rows=255)),
       q=table(15, *each_head(4, 64, 7, set=12.0), *each_head(4, 64, 8, set=0.0))),
    of("k_one_sharp_head", "ruined at 1.0 and not at the scale, although by less than half", K,
       k=table(.0155), q=table(100, edit(None, [0, 64], times=20.0))),
]

FEW = [
    of("q_few_rows", "rounding moves the winner of one query in forty, and a short prompt shows few", ["query"],
       more={"heads": 1, "kv_heads": 1, "prompts": [{"length": 138, "put": [[0, 0]]}]}, k=table(200), q=table(.36)),
]

BOTTOM = [
    of("v_bottom_of_grid", "two kinds that see their own kind only; the small one is lost at the scale, and kept at the rung below",
       V, k=table(.01, *each_head(2, 64, 63, set=.08, rows=[0, 128]), *each_head(2, 64, 63, set=-.08, rows=[128, 256])),
       q=table(300, *each_head(4, 64, 63, set=2e3, rows=[0, 128]), *each_head(4, 64, 63, set=-2e3, rows=[128, 256])),
       v=table(.3, *each_head(2, 64, 20, add=16.0), edit(0, times=1770.0), edit([128, 256], times=.0062))),
    of("k_kinds_on_grid", "the channel that tells two kinds apart is on the grid at the scale, and off it at the rung: no matter", K,
       k=table(1, *each_head(2, 64, 63, set=17.0, rows=[0, 128]), *each_head(2, 64, 63, set=-17.0, rows=[128, 256])),
       q=table(25, *each_head(4, 64, 63, set=80.0, rows=[0, 128]), *each_head(4, 64, 63, set=-80.0, rows=[128, 256]))),
]

SINKS = [
    of("v_offset_290_sinks", "the channel at 290 +- 3 where sinks take a share of attention that varies: so does the offset", V,
       more={"class": "sinks"}, v=table(.3, *each_head(2, 64, 3, times=10.0), *each_head(2, 64, 3, add=290.0)),
       sinks=table(1, edit(add=6.0))),
]

ONE_CHANNEL = [
    of("q_one_channel", "one channel is all of the logits: rounding it makes them larger or smaller alike, in their order",
       ["query"], more={"heads": 1, "kv_heads": 1, "prompts": [{"length": 138, "put": [[0, 0]]}]},
       k=table(1, *each_head(1, 64, 5, times=4000.0)), q=table(1)),
]

SAMPLES = [
    of("k_short_prompts_sharp", "ten chats of 60 tokens with logits of sigma 40, and one of 4000 that does not mind: tokens count, not rows",
       K, more={"heads": 1, "kv_heads": 1, "prompts": [{"length": 60, "tokens": [128, 255], "put": [[0, 0]]} for _ in range(10)] +
                [{"length": 4000, "tokens": [1, 127], "put": [[0, 0]]}]}, q=table(1, edit([128, 256], times=40.0))),
    of("k_window_past_sink", "300 nats ahead for whoever sees the first token: few do, the others' logits have sigma 40", K,
       more={"window": 32}, k=table(1, *each_head(2, 64, 7, set=120.0, rows=0)), q=table(40, *each_head(4, 64, 7, set=20.0))),
    of("v_nothing_first", "the first token's values are zero: nothing is added there, and nothing changes", V,
       v=table(1, edit(0, set=0.0))),
]

# Half of the tokens have values at 215 +- 3, the others a thousandth of that: how many of which a row sees makes its output
# longer or shorter, which a norm behind attention takes back.
OFFSET_KINDS = table(3, edit(add=215.0), edit([128, 256], times=1e-3))


def of_normed(name, about, heads, kv_heads):
    return of(name, about, V, more={"class": "capped", "cap": 30.0, "heads": heads, "kv_heads": kv_heads}, v=OFFSET_KINDS)


NORMED = [
    of_normed("v_offset_kinds_one_head", "one head: only the +- 3 is left, and it is drowned", 1, 1),
    of_normed("v_offset_kinds_two_heads", "two heads: whose output is the longer is left too, which the offset does not drown", 2, 1),
    of_normed("v_offset_kinds_four_heads", "four heads: so much of it that rows seldom lie near the mean", 4, 2),
]

LOGITS = [
    of("k_sink_takes_most", "a learned sink has nearly all of the weight: little of it moves, but all that the layer adds", ["key", "query"],
       more={"class": "sinks"}, q=table(8), sinks=table(0, edit(add=33.0))),
    of("q_small_where_keys_are_large", "three channels that are lost at 1.0, small where the keys are large", ["query"],
       k=table(2, *each_head(2, 64, [14, 17], times=1060.0)), q=table(1.4, *each_head(4, 64, [14, 17], times=.000943))),
]

LIKELY = [
    of("k_read_or_not", "half of the queries look at a first token that is 1300 times larger, by hundreds of nats: few are between",
       ["query"], more={"heads": 1, "kv_heads": 1, "head_dim": 128, "prompts": chats(96, 273)},
       k=table(.133, edit(0, times=1300.0)), q=table(20)),
    of("k_beyond_the_cap", "logits of sigma 110 under a cap of 24: what rounding moves there, the cap takes back", ["key", "query"],
       more={"class": "capped", "cap": 24.0, "heads": 2, "prompts": chats(138, 311, 164, 80)},
       k=table(50), q=table(2.2)),
    of("q_grid_of_channels", "three channels are nearly all of the logits; the scale rounds them better than the rung does", ["query"],
       runs=[{**HEAD, "policy": "mse"}], more={"kv_heads": 1, "prompts": chats(185, 260)},
       k=table(.288, *each_head(1, 64, [55, 58], times=.00026), edit(0, 53, set=.392)),
       q=table(11.18, *each_head(4, 64, [55, 58], times=3850.0))),
    of("v_ordinary_at_the_bottom", "half of the tokens are next to nothing and matter little; the next rung loses all, the scale does not", V,
       runs=[INT8], more={"prompts": chats(69, 165, 144, 155)}, v=table(.573, edit([128, 256], times=.000558), kind="signs")),
    of("q_common_beside_a_sink", "keys have an offset of 11.4, and the learned sink has none: a few queries look away from all keys", ["query"],
       more={"class": "sinks", "heads": 1, "kv_heads": 1, "prompts": chats(155, 172)},
       k=table(.568, *each_head(1, 64, [12, 15], times=303.0), edit(add=11.4)),
       q=table(2.05, *each_head(1, 64, [12, 15], times=.0574)), sinks=table(1, edit(add=2.0))),
    of("k_does_not_suffice", "keys of sigma .0034 whose logits are sharp: the scale may ruin them, and 1.0 ruins them ten times more", K,
       more={"kv_heads": 1, "prompts": chats(392, 373)}, k=table(.00342, edit(None, 63, add=.0718), edit(0, times=.0392)),
       q=table(3000)),
]

LOST = [
    of("v_two_cancel", "values of 100.5 and -99.5, on either side of a border of two cells: one token sees their sum and nothing else", V,
       more={"prompts": [{"length": 50, "tokens": [2, 255], "put": [[0, 0]]} for _ in range(7)] + [
           {"length": 50, "tokens": [2, 255], "put": [[0, 0], [1, 1]]}]},
       v=table(30, edit(0, set=100.5), edit(1, set=-99.5), *each_head(2, 64, 5, set=448.0, rows=7)), q=table(1e-3)),
    of("k_sink_clipped_by_both", "a first key of 12 that the scale clips at 2.25 and the rung below it at 1.75; all others are clipped by the rung alone",
       K, runs=[{**FNUZ, "policy": "percentile", "percentile": 99.99}], more={"prompts": chats(291, 390)},
       k=table(.281, *each_head(2, 64, 32, set=12.0, rows=0), *kinds_of_tokens(2, 2.248)),
       q=table(1.5, *kinds_of_tokens(4, 71.2))),
]

SHARED = [
    of("v_sink_offset", "values at 34 +- 1, and a first token 113 times as large that nobody looks at: it moves the mean of all", V,
       v=table(1, edit(add=34.0), edit(0, times=113.0)), **unread()),
    of("v_sink_offset_near", "the same, and the first token in the octave beside the others", V,
       v=table(1, edit(add=34.0), edit(0, times=2.2)), **unread()),
    of("v_two_offsets", "tokens at 215 +- 3 and at a thousandth of it, that look at their own kind only", V, v=OFFSET_KINDS, **own_kind()),
    of("v_two_signs", "tokens at 215 +- 3 and at -215 +- 3, that look at their own kind only", V,
       v=table(3, edit([0, 128], add=215.0), edit([128, 256], add=-215.0)), **own_kind()),
]



def drawn(name, about, sites, seed, index, **given):
    """A case of random_cases.py, with its tables."""
    return {**random_case(seed, index), "name": name, "about": about, "sites": sites, **given}


# Scales that were not tried themselves.
UNTRIED = [
    of("v_between_int8", "the scale is .53, just above a power of two: the next one is nearly twice as coarse, and so is 1.0", V, runs=[INT8],
       more={"heads": 4, "kv_heads": 4, "head_dim": 128, "prompts": chats(203, 310, 151)},
       v=table(.561, *each_head(4, 128, 15, add=2.233), *each_head(4, 128, 20, set=67.5, rows=0), kind="cubed")),
    drawn("q_between_int8", "the scale is just above a power of two: at the next one the layer is lost beyond doubt, as it is at 1.0",
          ["query"], 204, 85),
    of("k_in_few_cells", "a channel at 75.62 +- .38 lies well in a cell of the scale, and across a border at 1.0 and the power of two",
       K, runs=[{**FNUZ, "policy": "percentile", "percentile": 99.99}], more={"kv_heads": 1, "prompts": chats(203, 310, 151)},
       k=table(.38, *each_head(1, 64, 28, add=75.62)), q=table(.892)),
    drawn("k_far_above_the_ladder", "two kinds, each looks at its own; a scale beyond all that were tried loses little, 1.0 loses the layer", K,
          204, 49, runs=[{**FNUZ, "headroom": 5300}]),
    of("k_mean_of_kinds", "keys of two sizes: at 1.0 weights hardly move, and the output by an eighth", K,
       more={"heads": 8, "head_dim": 128, "prompts": chats(203, 310, 151)}, k=table(298, edit([128, 256], times=.000373)),
       q=table(.00155)),
    of("k_clipped_below_a_rung", "a sink of 56; a scale that holds 46, and the nearest power of two, which clips nothing", K,
       k=table(1, *each_head(2, 64, 7, set=56.0, rows=0), *each_head(2, 64, 30, set=46.0, rows=[1, 40])),
       q=table(1, *each_head(4, 64, 7, set=.9), *each_head(4, 64, 30, set=0.0)),
       runs=[percentile(99.95), {**FNUZ, "policy": "percentile", "percentile": 99.95}]),
    drawn("q_rows_beyond", "few queries change what they look at: the mean KL of those sampled is a quarter of that of all", ["query"], 203, 12),
    drawn("k_clipped_between_rungs", "a scale that clips what queries look at, halfway between a power of two that hardly does and one that ruins all",
          K, 501, 11),
    drawn("v_offset_averaged", "by counts what varies changes less than twice as much as the whole; attention averages all away but an offset", V, 501, 98),
    drawn("v_heads_at_two_rungs", "the scales of two heads lie below two powers of two; half of the tokens are next to nothing and matter little", V,
          603, 32),
    drawn("q_lost_in_the_sample", "at the scale and at 1.0 the sampled rows are lost, and those beyond them more", ["query"], 602, 7),
    drawn("v_nothing_varies", "the output is one constant, to the last bit of bfloat16, and a ten thousandth of it varies", V, 502, 35),
]

UNSEEN = drawn("q_unseen_is_not_lost", "few queries see all others drown beside a large channel; 1.0 loses every one", ["query"], 502, 70)
for change in UNSEEN["tables"]["v"]["edits"]:
    if "add" in change:
        change["add"] = 6.5

CASES = VALUES + KEYS + ROWS + CLIPPED + GRIDS + FEW + BOTTOM + SINKS + ONE_CHANNEL + SAMPLES + NORMED + LOGITS + LIKELY + LOST + SHARED + UNTRIED + [UNSEEN]
