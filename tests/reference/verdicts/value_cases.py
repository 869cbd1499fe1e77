"""Values: what rounding does to them depends on who reads them, and on what o_proj makes of them."""
from case_words import FNUZ, FP8, HEAD, INT8, case, each_head, edit, table

V = ["value"]


def unread(k=-20.0, q=16.0):
    """Tables of keys and queries: nobody but itself looks at token 0 (a logit of -40)."""
    return {"k": table(1, *each_head(2, 64, 0, set=0.0), *each_head(2, 64, 0, set=k, rows=0)),
            "q": table(1, *each_head(4, 64, 0, set=q))}


def own_kind():
    """Tokens 1 to 127 look at each other, and so do the rest: logits differ by 40."""
    k = [e for rows, sign in (([0, 128], 1), ([128, 256], -1)) for e in each_head(2, 64, 0, set=16.0 * sign, rows=rows)]
    q = [e for rows, sign in (([0, 128], 1), ([128, 256], -1)) for e in each_head(4, 64, 0, set=10.0 * sign, rows=rows)]
    return {"k": table(1, *k), "q": table(1, *q)}


def of_values(name, about, v, runs=(FP8,), **tables):
    return case(name, about, V, runs=list(runs), tables={"v": v, **tables})


def compensated(sigma, columns, factor):
    return table(sigma, *each_head(4, 64, columns, times=factor))


SINKS = [
    of_values("v_sink_unread", "first token 2e5 larger, no query looks at it", table(1, edit(0, times=2e5)), **unread()),
    of_values("v_sink_70_unread", "first token 3000 larger than values that 1.0 loses, not looked at",
              table(5e-4, edit(0, magnitude=1.5)), runs=[FP8, FNUZ, INT8], **unread()),
    of_values("v_sink_70_read", "the same, looked at like any other", table(5e-4, edit(0, magnitude=1.5))),
    of_values("v_sink_quiet", "the sink's values are a thousandth, and it gets most of the attention",
              table(1, edit(0, times=1e-3)), k=table(1, *each_head(2, 64, 0, set=6.0, rows=0)),
              q=table(1, *each_head(4, 64, 0, set=8.0))),
    of_values("v_sink_8_unread", "first token 8 times larger: nothing special", table(1, edit(0, times=8.0)), **unread()),
    of_values("v_sink_2000_unread", "first token 2000 larger, not looked at", table(1, edit(0, times=2000.0)),
              runs=[FP8, INT8], **unread()),
]

KINDS = [
    of_values("v_two_kinds", "tokens of sigma 30 and of 2e-4 that look at their own kind only",
              table(30, edit([128, 256], times=2e-4 / 30)), **own_kind()),
    of_values("v_two_kinds_mixed", "the same, all look at all: the small ones drown anyway",
              table(30, edit([128, 256], times=2e-4 / 30))),
    of_values("v_two_kinds_near", "sigma 30 and .03, which FP8 holds at once",
              table(30, edit([128, 256], times=1e-3)), runs=[FP8, INT8], **own_kind()),
    of_values("v_two_kinds_small", "sigma 2e-2 and 2e-5: the scale saves both, 1.0 loses one",
              table(2e-2, edit([128, 256], times=1e-3)), **own_kind()),
]

CHANNELS = [
    of_values("v_dead_channels", "four channels of 1e-9", table(1, *each_head(2, 64, [0, 4], times=1e-9)),
              runs=[FP8, FNUZ]),
    of_values("v_outlier_plain", "one channel of 300 beside 1e-3, o_proj plain",
              table(1e-3, *each_head(2, 64, 5, times=3e5))),
    of_values("v_outlier_compensated", "one channel of 300 beside 1e-3, o_proj makes them equal",
              table(1e-3, *each_head(2, 64, 5, times=3e5)), o=compensated(.0625, 5, 1 / 3e5)),
    of_values("v_outlier_near_compensated", "one channel of 300 beside 1, o_proj makes them equal",
              table(1, *each_head(2, 64, 5, times=300.0)), runs=[FP8, INT8], o=compensated(.0625, 5, 1 / 300)),
    of_values("v_offset_290", "a channel at 290 +- 3: all that tells tokens apart there is rounded away",
              table(.3, *each_head(2, 64, 3, times=10.0), *each_head(2, 64, 3, add=290.0))),
    of_values("v_offset_290_drowned", "the same beside channels of sigma 30", table(30, *each_head(2, 64, 3, times=.1),
                                                                                   *each_head(2, 64, 3, add=290.0))),
    of_values("v_offset_all", "all channels at 20 +- .3", table(.3, edit(add=20.0)), runs=[FP8, INT8]),
    of_values("v_constant", "a channel of 230 in every token: its error is the same everywhere",
              table(1, *each_head(2, 64, 3, set=230.0))),
    of_values("v_heads_plain", "heads of 20 and 1e-4, o_proj plain: the second adds nothing",
              table(20, edit(None, [64, 128], times=5e-6)), runs=[FP8, HEAD]),
    of_values("v_heads_compensated", "heads of 20 and 1e-4, o_proj makes them equal",
              table(20, edit(None, [64, 128], times=5e-6)), runs=[FP8, HEAD],
              o=table(.0625, edit(None, [128, 256], times=2e5))),
    of_values("v_zero_head", "one head is zero throughout", table(1, edit(None, [64, 128], set=0.0)), runs=[FP8, HEAD]),
    of_values("v_sink_and_channel", "a huge unread token and an outlier channel that o_proj shrinks",
              table(1e-3, *each_head(2, 64, 5, times=1e4), edit(0, times=50.0)), o=compensated(.0625, 5, 1e-4), **unread()),
]

SIZES = [of_values(f"v_at_{x}", f"one channel of +-{x} beside sigma 100",
                   table(100, *each_head(2, 64, 9, magnitude=float(x)))) for x in (448, 450, 460, 470, 500, 900)] + [
    of_values("v_at_470_alone", "everything is +-470, which 1.0 stores as 448", table(470, kind="signs")),
    of_values("v_at_700_alone", "everything is +-700, which 1.0 stores as 448", table(700, kind="signs")),
    of_values("v_sigma_115", "sigma 115, a tail to 500", table(115), runs=[FP8, FNUZ]),
    of_values("v_sigma_300", "sigma 300: 1.0 clips many", table(300)),
    of_values("v_sigma_021", "sigma .021: a tenth of the energy is subnormal at 1.0", table(.021)),
    of_values("v_sigma_004", "sigma .004: mostly subnormal at 1.0", table(.004)),
    of_values("v_tiny", "everything below 2^-10", table(1e-4), runs=[FP8, FNUZ, INT8]),
    of_values("v_bimodal", "+-200", table(200, kind="signs")),
    of_values("v_heavy_tail", "cubed normal numbers", table(1, kind="cubed"), runs=[FP8, INT8]),
    of_values("v_ordinary", "normal numbers", table(1), runs=[FP8, FNUZ, INT8]),
]

CASES = SINKS + KINDS + CHANNELS + SIZES
