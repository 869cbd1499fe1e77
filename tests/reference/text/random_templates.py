"""Random Jinja programs: expressions and statements from the whole language that kvcal's interpreter knows."""

_ATOMS = ["0", "1", "-3", "2.5", "1e3", "7", "'abc'", "'a b,c'", "' é '", "''", "'5'", "true", "false", "none", "undef", "d", "l", "m",
          "[]", "{}", "[1, 'a', none]", "{'k': 1, 'z': [2]}", "(1, 2)", "a", "b", "l[0]", "d.a", "d['b']", "m[0].role",
          "m[1]['content']", "m[-1].content", "d.items()", "range(4)|list", "x", "messages[0].content", "'<think>t</think>\\n\\nok'"]
_BINARY = ["+", "-", "*", "%", "//", "/", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or", "**"]
_FILTERS = ["trim", "length", "string", "list", "first", "last", "upper", "lower", "title", "capitalize", "tojson", "tojson(indent=2)",
            "tojson(ensure_ascii=false)", "join", "join(', ')", "default('q')", "d('q', true)", "int", "float", "abs", "round",
            "round(1)", "sum", "min", "max", "sort", "unique|list", "reverse|list", "items|list", "dictsort", "safe", "e",
            "replace('a', 'b')", "indent", "indent(2, first=true)", "map('string')|list", "map(attribute='role')|list",
            "select|list", "reject('none')|list", "selectattr('role')|list", "selectattr('role', 'equalto', 'user')|list",
            "rejectattr('content', 'none')|list", "batch(2)|list", "wordcount", "count", "sort(attribute='n')",
            "map('upper')|join", "groupby('role')|list", "slice(2)|list", "center(9)", "truncate(5)",
            "sort(reverse=true)", "map(attribute='n')|sum", "select('string')|list", "attr('role')", 
            "format(1)", "list|first", "map('upper')", "select('string')", "map('upper')|first", "unique", "batch(2)|first",
            "groupby('role')|map(attribute='grouper')|list", "groupby('role')|map(attribute='list')|map('length')|list", "unique(attribute='role')|list|length"]
_TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "boolean", "true",
          "false", "equalto 1", "eq 'abc'", "in l", "in ['abc', 1]", "callable", "float", "odd", "even", "divisibleby 2", "gt 1",
          "lower", "upper", "not none", "not string", "sameas none", "ne 0"]
_METHODS = [".split()", ".split(',')", ".split('</think>')[-1]", ".strip()", ".lstrip('a')", ".rstrip()", ".startswith('a')",
            ".endswith('c')", ".replace('b', '')", ".upper()", ".lower()", ".title()", ".capitalize()", ".find('b')", ".count('a')",
            ".join(['x', 'y'])", ".items()|list", ".keys()|list", ".values()|list", ".get('a')", ".get('q', 3)", ".format(1)",
            ".isdigit()", ".splitlines()", ".index(1)", ".role", ".content", ".n", ".a", ".zz", "[0]", "[-1]", "[1:]", "[:-1]", "[::-1]",
            "['a']", "['role']", "[1:3]", "[:2]", "[-2:]", "[b]", ".rsplit(' ', 1)", ".partition('b')[2]", ".isalpha()"]


def expression(rng, deep=0):
    kind = rng.random()
    if deep > 3 or kind < 0.25:
        return rng.choice(_ATOMS)
    e = expression(rng, deep + 1)
    if kind < 0.42:
        return f"{e} {rng.choice(_BINARY)} {expression(rng, deep + 1)}"
    if kind < 0.60:
        return f"{e}|{rng.choice(_FILTERS)}"
    if kind < 0.72:
        return f"({e}){rng.choice(_METHODS)}" if rng.random() < 0.5 else f"{rng.choice(_ATOMS)}{rng.choice(_METHODS)}"
    if kind < 0.80:
        return f"{e} is {rng.choice(_TESTS)}"
    if kind < 0.84:
        return f"({e} if {expression(rng, deep + 1)} else {expression(rng, deep + 1)})"
    if kind < 0.87:
        return f"{e} if {expression(rng, deep + 1)}"
    if kind < 0.91:
        return f"[{e}, {expression(rng, deep + 1)}]"
    if kind < 0.94:
        return f"{{'k': {e}}}"
    return f"({e})" if rng.random() < 0.6 else rng.choice(["not ", "-", "+"]) + e


def _tag(rng, text):
    return "{%" + rng.choice(["", "", "-", "+"]) + f" {text} " + rng.choice(["", "", "-"]) + "%}"


def _text(rng):
    return rng.choice(["", " ", "\n", "  \n  ", "t", " u\n", "é", "<|im_start|>", "\t", "\n\n"])


def statement(rng, deep=0):
    def body():
        return _text(rng) + "".join(statement(rng, deep + 1) for _ in range(rng.randrange(1, 3))) + _text(rng)
    e = expression(rng, 1)
    kind = rng.random()
    if deep > 2 or kind < 0.4:
        return "{{" + rng.choice(["", "", "-"]) + f" {e} " + rng.choice(["", "", "-"]) + "}}"
    if kind < 0.55:
        other = rng.choice(["", _tag(rng, "else") + body(), _tag(rng, f"elif {expression(rng, 1)}") + body()])
        return _tag(rng, f"if {e}") + body() + other + _tag(rng, "endif")
    if kind < 0.72:
        target = rng.choice(["x", "x", "k, v", "a"])
        over = rng.choice([e, "l", "m", "d.items()", "messages", "'abé'", "range(3)", "[[1, 2], [3, 4]]"])
        condition = rng.choice(["", "", f" if {expression(rng, 2)}"])
        inner = rng.choice(["", "{{ loop.index }}", "{{ loop.first }}", "{{ loop.last }}", "{{ loop.previtem is defined }}",
                            "{{ loop.nextitem }}", "{{ loop.length }}", "{% if loop.index0 == 1 %}{% break %}{% endif %}",
                            "{% if loop.first %}{% continue %}{% endif %}", "{% break %}", "{% continue %}", "{{ loop.changed(x) }}", "{{ loop.revindex0 }}"])
        other = rng.choice(["", "", _tag(rng, "else") + body()])
        return _tag(rng, f"for {target} in {over}{condition}") + inner + body() + other + _tag(rng, "endfor")
    if kind < 0.84:
        return _tag(rng, rng.choice([f"set x = {e}", f"set x, y = {e}, 1", f"set ns = namespace(v={e})", f"set c = {e}", f"set a = {e}", f"set b, l = {e}, [1]", f"set m = {e}"]))
    if kind < 0.86:
        return _tag(rng, "print " + ", ".join(expression(rng, 2) for _ in range(rng.randrange(1, 3))))
    if kind < 0.88:
        return _tag(rng, "set x") + body() + _tag(rng, "endset") + "{{ x|trim }}"
    if kind < 0.93:
        call = rng.choice(["mac(1)", "mac(x)", f"mac({e}, 2)", "mac(b=3, a='p')", "mac()|trim|length", "mac.name", "mac.arguments", "mac"])
        return _tag(rng, "macro mac(a, b='dflt')") + "{{ a }}/{{ b }}" + body() + _tag(rng, "endmacro") + "{{ " + call + " }}"
    if kind < 0.96:
        return "{% set ns = namespace(v=0) %}{% for i in l %}" + _tag(rng, f"set ns.v = {e}") + "{% endfor %}{{ ns.v }}"
    return rng.choice([_tag(rng, "filter upper") + body() + _tag(rng, "endfilter"), _tag(rng, "generation") + body() + _tag(rng, "endgeneration"),
                       _tag(rng, f"with x = {e}") + body() + _tag(rng, "endwith"), "{# c #}" + body(), _tag(rng, "raw") + "{{ x }}" + _tag(rng, "endraw")])


def random_template(rng):
    return "".join(_text(rng) + statement(rng) for _ in range(rng.randrange(1, 4)))
