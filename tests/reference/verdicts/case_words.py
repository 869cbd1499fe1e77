"""Words that the lists of cases are written in."""

FP8, FNUZ, INT8 = ({"dtype": d} for d in ("fp8_e4m3", "fp8_e4m3fnuz", "int8"))
HEAD = {"dtype": "fp8_e4m3", "granularity": "head"}

# Four chats that begin with the same token, which is seen nowhere else.
CHATS = [{"length": n, "put": [[0, 0]]} for n in (50, 200, 400, 300)]
SHORT = [{"length": n, "put": [[0, 0]]} for n in (60, 250)]  # where positions matter: costs their square


def table(sigma, *edits, kind=None):
    made = {"sigma": sigma}
    if kind:
        made["kind"] = kind
    if edits:
        made["edits"] = list(edits)
    return made


def edit(rows=None, columns=None, **operation):
    """rows, columns: an index, or [first, behind the last]; operation: set, times, add or magnitude = a number."""
    where = {"rows": rows, "columns": columns}
    return {**{k: v for k, v in where.items() if v is not None}, **operation}


def each_head(n, dim, columns, **operation):
    """The same edit in every head: columns count within a head."""
    first, behind = (columns, columns + 1) if isinstance(columns, int) else columns
    rows = operation.pop("rows", None)
    return [edit(rows, [h * dim + first, h * dim + behind], **operation) for h in range(n)]


def case(name, about, sites=None, **given):
    """A case of grouped-query attention; sites: those that are judged."""
    made = {"name": name, "about": about, "class": "plain", "heads": 4, "kv_heads": 2, "head_dim": 64, **given}
    made.setdefault("prompts", CHATS)
    made["positions"] = max(p["length"] for p in made["prompts"])
    made.setdefault("sites", sites or (["latent", "query"] if made["class"] == "latent" else ["key", "value", "query"]))
    made.setdefault("runs", [FP8])
    small = {"q": 1, "k": 1, "v": 1, "o": .0625, "row": 1, "kvb": .125, "sinks": 1}
    tables = made.pop("tables", {})
    named = ["q", "o"] + (["row", "gain", "kvb"] if made["class"] == "latent" else ["k", "v"])
    named += ["sinks"] if made["class"] == "sinks" else []
    made["tables"] = {n: tables.get(n) or (table(0, edit(set=1)) if n == "gain" else table(small[n])) for n in named}
    return made


def latent_case(name, about, sites=None, **given):
    """Of MLA: 64 latent channels, 16 that turn; heads with 32 channels of either kind."""
    sizes = {"class": "latent", "heads": 4, "rank": 64, "nope": 32, "turned": 16, "value": 32, "theta": 10000.0}
    made = case(name, about, sites, **{**sizes, "prompts": SHORT, **given})
    for absent in ("kv_heads", "head_dim"):
        made.pop(absent)
    return made
