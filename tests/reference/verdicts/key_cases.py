"""Keys: rounding moves logits, by as much as queries are long where the error is."""
from case_words import FNUZ, FP8, HEAD, INT8, SHORT, case, each_head, edit, table

K, KQ = ["key"], ["key", "query"]
LONG = [{"length": 9200, "put": [[0, 0]]}]  # x 128 channels: 1.2 million values
ONE_HEAD = {"heads": 1, "kv_heads": 1, "head_dim": 128, "prompts": LONG}


def percentile(p):
    return {"dtype": "fp8_e4m3", "policy": "percentile", "percentile": p}


def of_keys(name, about, sites=K, runs=(FP8,), more=None, **tables):
    return case(name, about, sites, runs=list(runs), tables=tables, **(more or {}))


SINKS = [
    of_keys("k_sink_2e5", "first token's key 2e5 larger: the others drown",
            k=table(1, edit(0, times=2e5)), v=table(1, edit(0, times=2e5)), sites=["key", "value"]),
    of_keys("k_sink_4000", "a sink of 4000 in one channel of one token of 9200: one value in 1.2 million", more=ONE_HEAD,
            k=table(20, edit(0, 7, set=4000.0)), q=table(.05, edit(None, 7, set=.03)),
            runs=[FP8, FNUZ, percentile(99.99), {"dtype": "fp8_e4m3", "policy": "kl"},
                  {"dtype": "fp8_e4m3", "policy": "mse"}]),
    of_keys("k_sink_4000_unread", "the same where queries are zero", more=ONE_HEAD,
            k=table(20, edit(0, 7, set=4000.0)), q=table(.05, edit(None, 7, set=0.0)), runs=[FP8, percentile(99.99)]),
    of_keys("k_sink_40", "an ordinary sink: 40 in one channel, 6 nats ahead",
            k=table(1, *each_head(2, 64, 7, set=40.0, rows=0)), q=table(1, *each_head(4, 64, 7, set=1.25)),
            runs=[FP8, FNUZ, INT8, percentile(99.9), {"dtype": "int8", "policy": "kl"}, {"dtype": "int8", "policy": "mse"}]),
    of_keys("k_rare_token", "a token that one prompt of four holds once has a key of 3000",
            more={"prompts": [{"length": 300, "tokens": [1, 255], "put": [[0, 0]]} for _ in range(3)] +
                  [{"length": 300, "tokens": [1, 255], "put": [[0, 0], [150, 255]]}]},
            k=table(1, *each_head(2, 64, 7, set=3000.0, rows=255)), q=table(1, *each_head(4, 64, 7, set=.01))),
]

OFFSET_290 = each_head(2, 64, 2, times=3.0) + each_head(2, 64, 2, add=290.0)

CHANNELS = [
    of_keys("k_unread_hides_rest", "a channel of .5 that no query reads, others 5e-4 for queries of 3000",
            k=table(5e-4, *each_head(2, 64, 2, magnitude=.5)), q=table(3000, *each_head(4, 64, 2, set=0.0))),
    of_keys("k_offset_290", "a channel at 290 +- 3, read", k=table(1, *OFFSET_290),
            sites=KQ),
    of_keys("k_offset_200", "a channel at 200 +- 3, read",
            k=table(1, *each_head(2, 64, 2, times=3.0), *each_head(2, 64, 2, add=200.0))),
    of_keys("k_offset_290_unread", "a channel at 290 +- 3 that no query reads",
            k=table(1, *OFFSET_290), q=table(1, *each_head(4, 64, 2, set=0.0)),
            sites=KQ),
    of_keys("k_constants", "channels constant at 290 and 230: their error is every key's, and cancels",
            k=table(1, *each_head(2, 64, 2, set=290.0), *each_head(2, 64, 3, set=230.0)), runs=[FP8, FNUZ, INT8]),
    of_keys("k_offset_all", "all channels at 8 +- .5", k=table(.5, edit(add=8.0)), q=table(2)),
    of_keys("k_outlier_60", "a channel of sigma 60, read", k=table(1, *each_head(2, 64, 11, times=60.0)), sites=KQ,
            runs=[FP8, INT8]),
    of_keys("k_outlier_60_unread", "a channel of sigma 60 that no query reads",
            k=table(1, *each_head(2, 64, 11, times=60.0)), q=table(1, *each_head(4, 64, 11, set=0.0)), runs=[FP8, INT8]),
    of_keys("k_outliers_four", "four channels of sigma 40, each with a fourth of the noise",
            k=table(1, *each_head(2, 64, [8, 12], times=40.0))),
    of_keys("k_outlier_3000_quiet", "a channel of sigma 3000 that queries read with .001 of their length",
            k=table(1, *each_head(2, 64, 11, times=3000.0)), q=table(1, *each_head(4, 64, 11, times=1e-3)), runs=[FP8, FNUZ]),
    of_keys("k_outlier_3e5_quiet", "a channel of sigma 3e5, hardly read: the others drown beside it",
            k=table(1, *each_head(2, 64, 11, times=3e5)), q=table(1, *each_head(4, 64, 11, times=1e-5))),
    of_keys("k_dead_channels", "eight channels of 1e-9", k=table(1, *each_head(2, 64, [0, 8], times=1e-9))),
    of_keys("k_dead_channels_read", "eight channels of 1e-9 that queries of 1e9 read: 1.0 loses them, so does the scale",
            k=table(1, *each_head(2, 64, [0, 8], times=1e-9)), q=table(1, *each_head(4, 64, [0, 8], times=1e9))),
    of_keys("k_two_kinds", "keys of sigma 8 and of .001", k=table(8, edit([128, 256], times=1e-3 / 8)), sites=KQ),
]

HEADS = [
    of_keys("k_clip_beside_sharp", "head 0 clips at 1.0, head 1 is sharp",
            k=table(1, edit(None, [0, 64], times=150.0)),
            q=table(1, edit(None, [0, 128], times=1 / 150), edit(None, [128, 256], times=80.0))),
    of_keys("k_heads", "heads of 20 and 1e-4, queries make up for it", runs=[FP8, HEAD],
            k=table(20, edit(None, [64, 128], times=5e-6)), q=table(.05, edit(None, [128, 256], times=2e5)), sites=KQ),
    of_keys("k_zero_head", "one key head is zero: it averages", k=table(1, edit(None, [64, 128], set=0.0)), runs=[FP8, HEAD]),
    of_keys("k_one_sharp_of_8", "one query head of a group of eight is 40 times longer", sites=KQ,
            q=table(.4, edit(None, [192, 256], times=40.0)), more={"heads": 8, "kv_heads": 1}, runs=[FP8, HEAD]),
    of_keys("k_multi_query", "eight query heads read one key head", sites=KQ, more={"heads": 8, "kv_heads": 1}),
    of_keys("k_wide_256", "head_dim 256", sites=["key", "value", "query"], more={"heads": 2, "kv_heads": 1, "head_dim": 256}),
    of_keys("k_wide_256_sharp", "head_dim 256, logits of sigma 16", sites=KQ, q=table(4), k=table(4),
            more={"heads": 2, "kv_heads": 1, "head_dim": 256}),
]

SHARPNESS = [of_keys(f"k_sharp_{n}", f"logits of sigma {n}", sites=KQ, q=table(float(n))) for n in (3, 6, 10, 20, 60)] + [
    of_keys("k_sharp_10_int8", "logits of sigma 10 in int8", sites=KQ, q=table(10.0), runs=[INT8]),
    of_keys("k_saturated", "the winner is 75 nats ahead: noise does not matter", sites=KQ,
            k=table(1, *each_head(2, 64, 7, set=60.0, rows=0)), q=table(1, *each_head(4, 64, 7, set=10.0))),
    of_keys("k_saturated_sharp", "the winner is 300 nats ahead of logits of sigma 20", sites=KQ,
            k=table(1, *each_head(2, 64, 7, set=120.0, rows=0)), q=table(20, *each_head(4, 64, 7, set=20.0))),
]

SIZES = [of_keys(f"k_at_{x}", f"one channel of +-{x}, read a little",
                 k=table(1, *each_head(2, 64, 9, magnitude=float(x))), q=table(1, *each_head(4, 64, 9, set=.02)))
         for x in (448, 450, 460, 470, 500)] + [
    of_keys("k_at_500_read", "one channel of +-500, read", k=table(1, *each_head(2, 64, 9, magnitude=500.0)),
            q=table(1, *each_head(4, 64, 9, set=.2))),
    of_keys("k_tiny", "everything below 2^-10", k=table(1e-4), q=table(1e4), runs=[FP8, FNUZ, INT8], sites=KQ),
    of_keys("k_sigma_021", "sigma .021", k=table(.021), q=table(48)),
    of_keys("k_ordinary", "normal numbers", runs=[FP8, FNUZ, INT8], sites=KQ),
]

ROTATED = {"class": "rope", "theta": 10000.0, "prompts": SHORT}
FORMS = [
    of_keys("k_rope", "rotated keys", more=ROTATED, sites=["key", "value", "query"]),
    of_keys("k_rope_bias_fast", "a bias of 290 in a pair that turns fast", more=ROTATED,
            k=table(1, *each_head(2, 64, 1, add=290.0))),
    of_keys("k_rope_bias_slow", "a bias of 290 in a pair that hardly turns", more=ROTATED,
            k=table(1, *each_head(2, 64, 31, add=290.0))),
    of_keys("k_rope_bias_slow_unread", "the same where queries have nothing", more=ROTATED,
            k=table(1, *each_head(2, 64, 31, add=290.0)),
            q=table(1, *each_head(4, 64, 31, set=0.0), *each_head(4, 64, 63, set=0.0))),
    of_keys("k_rope_offset_30", "a bias of 30 in four pairs, as Qwen2 has them", more=ROTATED,
            k=table(1, *each_head(2, 64, [24, 28], add=30.0))),
    of_keys("k_capped", "logits of sigma 60, capped at 5", sites=KQ, q=table(60), more={"class": "capped", "cap": 5.0}),
    of_keys("k_capped_mild", "logits of sigma 3, capped at 50", sites=KQ, q=table(3), more={"class": "capped", "cap": 50.0}),
    of_keys("k_sink_parameter", "learned sinks take most of the attention", sites=["key", "value", "query"],
            more={"class": "sinks"}, sinks=table(1, edit(add=9.0))),
    of_keys("k_sink_parameter_sharp", "learned sinks level with the best of logits of sigma 6", sites=KQ, q=table(6),
            more={"class": "sinks"}, sinks=table(1, edit(add=18.0))),
    of_keys("k_window", "a window of 32 tokens", sites=["key", "value", "query"], more={"window": 32}),
    of_keys("k_window_sharp", "a window of 32 tokens, logits of sigma 10", sites=KQ, q=table(10), more={"window": 32}),
]

CASES = SINKS + CHANNELS + HEADS + SHARPNESS + SIZES + FORMS
