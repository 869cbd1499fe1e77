"""Queries, which some kernels round as well; and rows of MLA, which are key and value at once."""
from case_words import FNUZ, FP8, INT8, case, each_head, edit, latent_case, table

Q, ROW, BOTH = ["query"], ["latent"], ["latent", "query"]


def of_queries(name, about, runs=(FP8,), **tables):
    return case(name, about, Q, runs=list(runs), tables=tables)


QUERIES = [
    of_queries("q_channel_1e4_unread", "one channel of 1e4 where keys are zero", k=table(1, *each_head(2, 64, 4, set=0.0)),
               q=table(1, *each_head(4, 64, 4, magnitude=1e4))),
    of_queries("q_channel_100_unread", "one channel of 100 where keys are zero", k=table(1, *each_head(2, 64, 4, set=0.0)),
               q=table(1, *each_head(4, 64, 4, magnitude=100.0))),
    of_queries("q_1000_int8", "queries of 1000 for keys of .001", q=table(1000), k=table(1e-3), runs=[FP8, INT8]),
    of_queries("q_first_token", "the first token's query is 2000 times longer", q=table(1, edit(0, times=2000.0)),
               runs=[FP8, INT8]),
    of_queries("q_first_token_tiny", "the first token's query is 3000 times longer than queries that 1.0 loses",
               q=table(5e-4, edit(0, times=3000.0)), k=table(2000)),
    of_queries("q_outlier_100", "a channel of sigma 100 for keys of 1", q=table(1, *each_head(4, 64, 4, times=100.0))),
    of_queries("q_outlier_100_quiet", "a channel of sigma 100 for keys of .01",
               q=table(1, *each_head(4, 64, 4, times=100.0)), k=table(1, *each_head(2, 64, 4, times=.01)), runs=[FP8, INT8]),
    of_queries("q_at_470", "a channel of +-470", q=table(1, *each_head(4, 64, 4, magnitude=470.0)),
               k=table(1, *each_head(2, 64, 4, times=.02))),
    of_queries("q_heads", "query heads of 100 and 1e-5, keys make up for it", runs=[FP8, {**FP8, "granularity": "head"}],
               q=table(100, edit(None, [128, 256], times=1e-7)), k=table(.01, edit(None, [64, 128], times=1e7))),
]

WIDE = {"gain": table(0, edit(set=2e-4), edit(None, 5, set=30.0))}
ROPE_ONLY = [edit(None, [h * 48, h * 48 + 32], set=0.0) for h in range(4)]  # queries' parts that meet the latent


def of_rows(name, about, runs=(FP8,), sites=ROW, **tables):
    return latent_case(name, about, sites, runs=list(runs), tables=tables)


ROWS = [
    of_rows("l_ordinary", "normal numbers", runs=[FP8, FNUZ, INT8], sites=BOTH),
    of_rows("l_channel_for_values", "a latent channel of 30 beside 2e-4 that kv_b_proj shrinks; read as values only",
            gain=WIDE["gain"], kvb=table(600, edit(None, 5, times=6e-6)), q=table(1, *ROPE_ONLY)),
    of_rows("l_channel_plain", "the same, kv_b_proj plain: the channel is all there is",
            gain=WIDE["gain"], kvb=table(.125), q=table(.05)),
    of_rows("l_small_beside_rope", "a latent of .002 beside a rope part of 40", row=table(1, edit(None, [64, 80], times=40.0)),
            gain=table(0, edit(set=.002)), kvb=table(62),
            q=table(1, *[edit(None, [h * 48 + 32, h * 48 + 48], times=.01) for h in range(4)])),
    of_rows("l_near_rope", "a latent of 1 beside a rope part of 40", row=table(1, edit(None, [64, 80], times=40.0)),
            q=table(1, *[edit(None, [h * 48 + 32, h * 48 + 48], times=.02) for h in range(4)]), runs=[FP8, INT8]),
    of_rows("l_tiny", "everything below 2^-10", row=table(1, edit(None, [64, 80], times=1e-4)), gain=table(0, edit(set=1e-4)),
            kvb=table(1250), q=table(1, *[edit(None, [h * 48 + 32, h * 48 + 48], times=1e4) for h in range(4)])),
    of_rows("l_dead_channels", "eight latent channels of 1e-9", gain=table(0, edit(set=1.0), edit(None, [0, 8], set=1e-9))),
    of_rows("l_rope_bias", "a bias of 290 in a slow pair of the rope part", row=table(1, edit(None, 78, add=290.0))),
    of_rows("l_rope_bias_unread", "the same where queries have nothing", row=table(1, edit(None, 78, add=290.0)),
            q=table(1, *[edit(None, [h * 48 + 46, h * 48 + 48], set=0.0) for h in range(4)])),
    of_rows("l_sharp", "long queries", q=table(12), sites=BOTH),
    of_rows("l_large", "a latent of 200: 1.0 clips", gain=table(0, edit(set=200.0)), kvb=table(6e-4), runs=[FP8, FNUZ]),
    of_rows("l_at_460", "a constant latent of +-460", gain=table(0, edit(set=1.0), edit(None, 3, set=200.0)),
            row=table(1, edit(None, 3, magnitude=4.0)), kvb=table(.125, edit(None, 3, times=.005))),
]

CASES = QUERIES + ROWS
