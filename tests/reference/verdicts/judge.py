"""What rounding one site of a layer does to attention, in float64, and which assessments are right.

The definition is in tests/verdicts/README.md; it is written as code here and nowhere else.
"""
import numpy as np

from centring import centered, groupings
from number_formats import round_trip, site_scale

FINE = {"rel": .08, "kl": .005}
RUINED = {"rel": .30, "kl": .05}
MOST_LOST = 1.0  # of a token's output: what changed by as much as it is, is lost, and cannot lose more
LEAST_CENTERED = 2 ** -9  # of a token's whole output: less is left of it in bfloat16 as well, with nothing rounded here


# --- attention ---

def log_weights(layer, rows, q, k):
    """[tokens, keys (and the sink)] of one query head: log of the weight of each key, all its occurrences together."""
    logits = layer.scale * (q @ k.T)
    if layer.cap:
        logits = layer.cap * np.tanh(logits / layer.cap)
    return logits + rows.log_count


def normalised(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def attend(layer, rows, q, k, v):
    """-> what attention adds to the stream [tokens, hidden], log of the weights by head"""
    heads, group = q.shape[1], q.shape[1] // k.shape[1]
    outputs, weights = [], []
    for h in range(heads):
        x = log_weights(layer, rows, q[:, h], k[:, h // group])
        if layer.sinks is not None:
            x = np.concatenate([x, np.full((len(x), 1), layer.sinks[h])], -1)
        w = normalised(x)
        weights.append(w)
        outputs.append(np.exp(w)[:, :len(v)] @ v[:, h // group])
    return project(layer, outputs), weights


def project(layer, outputs):
    y = np.concatenate(outputs, -1) @ layer.o.T
    length = np.sqrt((y * y).mean(-1, keepdims=True))
    return y / np.where(length > 0, length, 1) if layer.branch_norm else y


def divergence(exact, rounded):
    """Mean over rows of Σ p (log p - log p'); keys that are not visible have no part."""
    p = np.exp(exact)
    with np.errstate(invalid="ignore"):
        return np.where(p > 0, p * (exact - rounded), 0).sum(-1)


# --- one site rounded ---

def exact_run(layer):
    return [attend(layer, r, r.q, r.k, r.v) for r in layer.prompts]


def rounded_run(layer, site, name, scale):
    for r in layer.prompts:
        q, k, v = r.q, r.k, r.v
        if site == "query":
            q = round_trip(q, name, scale)
        if site in ("key", "latent"):
            k = round_trip(k, name, scale)
        if site == "latent":
            v = k[..., :layer.latent]
        if site == "value":
            v = round_trip(v, name, scale)
        yield attend(layer, r, q, k, v)


def relative(difference, y, whole):
    size = np.maximum(np.linalg.norm(y, axis=-1), LEAST_CENTERED * whole)
    ratio = np.linalg.norm(difference, axis=-1) / np.where(size > 0, size, 1)
    return float(np.sqrt((np.minimum(ratio, MOST_LOST) ** 2).mean()))


def compare(exact, groups, rounded):
    y = np.concatenate([e[0] for e in exact])
    d = np.concatenate([r[0] for r in rounded]) - y
    whole = np.linalg.norm(y, axis=-1)
    kl = [np.concatenate([divergence(e[1][h], r[1][h]) for e, r in zip(exact, rounded)]).mean()
          for h in range(len(exact[0][1]))]
    return {"rel_raw": relative(d, y, whole),
            "rel_centered": max(relative(centered(d, y, g), centered(y, y, g), whole) for g in groups),
            "kl": max(0.0, float(max(kl)))}


# --- classes and accepted assessments ---

def rel(error):
    return max(error["rel_raw"], error["rel_centered"])


def grade(error, factor=1.0):
    """0 fine, 1 between, 2 ruined, of the error times a factor."""
    r, kl = rel(error) * factor, error["kl"] * factor
    if r > RUINED["rel"] or kl > RUINED["kl"]:
        return 2
    return 0 if r < FINE["rel"] and kl < FINE["kl"] else 1


def severity(error):
    """1 at the limit of fine; linear in the rounding error, of which kl is the square."""
    return max(rel(error) / FINE["rel"], (error["kl"] / FINE["kl"]) ** .5)


def accepted_fp8(error):
    r, kl, g = rel(error), error["kl"], grade(error)
    if g != 1:
        return ["fine" if g == 0 else "keep16"]
    return (["fine"] if r < .22 and kl < .032 else []) + (["keep16"] if r > .11 or kl > .008 else [])


def accepted_scale(at_scale, at_one):
    here, there = grade(at_scale), grade(at_one)
    clearly = severity(at_one) > 1.5 * severity(at_scale)
    crosses = grade(at_one, 1 / 1.2) > grade(at_scale, 1.2) and (clearly or here == 0)
    if crosses or (here == 0 and there == 2):
        return ["needed"]
    return ["any", "needed"] if there > here or clearly else ["any"]


def scale_near(at_scale, at_one, factor):
    """The answers that are accepted where either error were larger or smaller by a factor."""
    both = [(at_scale, at_one)]
    for f in (factor, 1 / factor):
        both += [(times(at_scale, f), at_one), (at_scale, times(at_one, f))]
    return {answer for here, there in both for answer in accepted_scale(here, there)}


def times(error, factor):
    return {"rel_raw": error["rel_raw"] * factor, "rel_centered": error["rel_centered"] * factor, "kl": error["kl"] * factor ** 2}


def values_of(layer, site):
    pick = {"query": lambda r: (r.q, np.ones(len(r.q), int)), "key": lambda r: (r.k, r.seen),
            "latent": lambda r: (r.k, r.seen), "value": lambda r: (r.v, r.seen)}[site]
    return [pick(r) for r in layer.prompts]


def judge_site(layer, exact, groups, site, run, scales):
    arrays = values_of(layer, site)
    scale = scales[site] if scales else site_scale(arrays, run)
    at_scale, at_one = (compare(exact, groups, list(rounded_run(layer, site, run["dtype"], s))) for s in (scale, 1.0))
    return {"absmax": float(max(np.abs(a[n > 0]).max() for a, n in arrays)), "scale": scale, "at_scale": at_scale,
            "at_one": at_one,
            "accepted": {"fp8": accepted_fp8(at_scale), "scale": accepted_scale(at_scale, at_one)}}


def judge(case, layer, scales_of=lambda run: None):
    """-> for each run of the case: site -> judgement, at the run's own scales or, where there are some, at scales_of(run)"""
    exact = exact_run(layer)
    groups = groupings([y for y, _ in exact])

    def of_run(run):
        scales = scales_of(run)
        return {site: judge_site(layer, exact, groups, site, run, scales) for site in case["sites"]}
    return [of_run(run) for run in case["runs"]]
