"""Templates for every construct that kvcal's interpreter supports, and the shapes of well-known chat formats.

All of them are written for this project. CONSTRUCTS are (name, template, variables); SHAPES are whole chat templates that
are rendered with each of CHATS.
"""

import pathlib

from shapes import MORE_CHATS, MORE_SHAPES

TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather at <place> & \"time\"",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
                       "required": ["place"]}}}
D = {"b": 1, "a": "x", "C": None, "items": [1, 2], "é": {"k": True}}
L = [3, 1, 2]
M = [{"role": "user", "content": "hi", "n": 2}, {"role": "assistant", "content": "yo", "n": 1},
     {"role": "user", "content": None, "n": 3}]

_EXPRESSIONS = """
1 + 2 * 3|7 // 2|-7 // 2|7 % 3|-7 % 3|7 / 2|2 ** 10|2 ** 3 ** 2|-2 ** 2|2 ** -1|1.5 + 1|7.0 // 2|-7.5 % 2|1e3|1e16|1e-5|1_000|0x1f
'a' ~ 1 ~ none ~ true ~ 1.0|'a' + 'b' * 3|[1] + [2]|(1, 2) + (3,)|'%s is %d of %.2f' % ('x', 5, 1.5)|'%05d|%-5s|%x' % (42, 'a', 255)
1 < 2 < 3|1 < 2 > 3|'a' in 'abc'|'z' not in 'abc'|2 in [1, 2]|'a' in d|'zz' in d|1 == 1.0|true == 1|'1' == 1|none == undef|undef == undef
not true or false|true and 'x'|'' or 'y'|0 or none|'a' if true else 'b'|'a' if false|('a' if false else 'b') ~ 'c'
d.b|d['b']|d['items']|d.zz|d['zz']|d.get('zz')|d.get('zz', 5)|d.get('b')|d.é.k|l[0]|l[-1]|l[9]|l.0|l[1:]|l[:1]|l[:-1]|l[::-1]|l[5:]|l[-2:]|'hello'[1:3]|'hello'[::-1]|'hello'[-1]|'héllo'[1]|l[::2]
[1, 'a', none, true, 1.5, [2], {'k': 'v'}]|{'a': 1, 2: 'b'}|(1,)|(1, 2)|()|[]|{}|'it\\'s'|["it's"]|['a"b\\'c']|['é\\n\\t\\\\']|['\\x07\\u200b']
d|l|m|none|true|undef|1.0|100000000000000000000.0|0.1|1e22|1.5e-7
d.items()|list|d.keys()|list|d.values()|list|d.items()|d.keys()|d.values()
undef is defined|undef is undefined|d is mapping|l is mapping|l is sequence|'a' is sequence|d is sequence|'a' is string|1 is string|1 is number|true is number|1 is integer|true is integer|1.0 is float|true is boolean|1 is boolean|none is none|l is iterable|1 is iterable|undef is iterable|undef is sequence|range is callable
true is true|1 is true|false is false|1 is eq 1|1 is equalto 2|1 is ne 2|3 is gt 2|1 is lt 0|2 is ge 2|2 is le 1|1 is in [1, 2]|2 is even|2 is odd|9 is divisibleby 3|'a' is lower|'A' is upper|'aB' is upper|d is not mapping|undef is not defined|1 is sameas 1
""".strip().split("\n")
# The separator of the lines above is also Jinja's, so filters have their own lists.
_FILTERS = """
l | list; l | sort; l | sort(reverse=true); l | sum; l | min; l | max; l | first; l | last; l | reverse | list; l | length; l | count
'abc' | first; 'abc' | last; 'abc' | reverse; 'abc' | length; 'héé' | length; 'abc' | list; d | list; d | length; undef | length; undef | list
' a b ' | trim; 'xxaxx' | trim('x'); 'hELLO wORLD' | capitalize; 'hELLO wORLD' | title; "it's a-b (c) é" | title; 'ß' | upper; 'ΑΣ' | lower; 'İ' | lower
'aXbX' | replace('X', 'y'); 'aXbX' | replace('X', 'y', 1); 123 | replace('2', 'z'); 'a' | string; 5 | string; none | string; l | string
'a\\nb\\n\\nc' | indent; 'a\\nb' | indent(2, first=true); 'a\\n\\nb' | indent(2, true, true); 'a\\nb' | indent('> '); 'a\\n' | indent(1)
'5' | int; '5.9' | int; 'x' | int; 'x' | int(7); 5.9 | int; -5.9 | int; true | int; '1f' | int(base=16); none | int; '0x1f' | int(0, 16); ' 42 ' | int; '1_000' | int
'5' | float; 'x' | float; 5 | float; '1e3' | float; 'x' | float(1.5); none | float; 'inf' | float
2.5 | round; 3.5 | round; 2.567 | round(2); 2.567 | round(1, 'floor'); 2.1 | round(0, 'ceil'); 5 | round; 1234 | round(-2); 2.675 | round(2); 0.5 | round; 1e300 | round
-5 | abs; 5.5 | abs; -5.5 | abs; true | abs
undef | default('x'); none | default('x'); none | default('x', true); '' | d('x', true); 0 | default(1); undef | default; undef | d(none)
l | join; l | join(', '); m | join(',', attribute='role'); 'abc' | join('-'); undef | join(','); [1, none, true] | join('|')
l | map('string') | list; m | map(attribute='role') | list; m | map(attribute='zz', default='q') | list; ['a', 'B'] | map('upper') | join; ['a b', 'c'] | map('replace', ' ', '_') | list; l | map('string') | join('+')
m | selectattr('role', 'equalto', 'user') | list | length; m | rejectattr('role', 'eq', 'user') | map(attribute='content') | list; m | selectattr('content') | list | length; m | rejectattr('content') | list | length; m | selectattr('n', 'gt', 1) | map(attribute='n') | list
l | select('odd') | list; l | reject('odd') | list; [0, 1, '', 'a', none] | select | list; [0, 1, ''] | reject | list; ['a', 1] | select('string') | list; l | select('in', [1, 2]) | list
d | dictsort; d | items | list; {'b': 2, 'A': 1} | dictsort; {'b': 2, 'A': 1} | dictsort(true); {'b': 1, 'a': 2} | dictsort(by='value'); {'b': 1, 'a': 2} | dictsort(reverse=true)
m | sort(attribute='n') | map(attribute='n') | list; ['b', 'A', 'c'] | sort; ['b', 'A', 'c'] | sort(case_sensitive=true); m | sort(attribute='role,n') | map(attribute='n') | list
['a', 'A', 'b'] | unique | list; [1, 2, 1] | unique | list; ['a', 'A'] | unique(true) | list; m | unique(attribute='role') | map(attribute='role') | list
[1, 2, 3, 4, 5] | batch(2) | list; [1, 2, 3] | batch(2, 'x') | list; [1, 2, 3, 4, 5] | slice(2) | list; m | groupby('role') | map('first') | list
'<a>&"' | e; '<a>' | safe; ('<a>' | safe) + '<b>'; ('<a>' | safe) ~ '<b>'; '<b>' | escape | length; ['a' | safe]
d | tojson; l | tojson; d | tojson(indent=2); [] | tojson(indent=2); 'é<>&\\'"' | tojson; 'é😀' | tojson(ensure_ascii=true); {'b': 1, 'a': [1.0, 1e20, none, true]} | tojson(sort_keys=true); (1, 2) | tojson; d | tojson(separators=(',', ':')); d | tojson(indent=4, separators=(', ', ' : ')); '\\u2028\\x7f\\x1f' | tojson; {1: 2, true: 3, none: 4, 1.5: 5} | tojson; '' | tojson; d | tojson(indent=0)
'%s-%s' | format('a', 1); '%(x)s' | format(x=5); 'a b  c' | wordcount; 'abc' | center(7); 'hello big world' | truncate(9, false, '..', 0)
l | attr('zz') is defined; -1 | abs; - l | first; 1 + 2 | string | length; 'a' ~ 'b' | upper; not undef | default(true); l | first + 1
""".strip().split("\n")
_METHODS = """
'a,b,c'.split(',')|'a,b,c'.split(',', 1)|' a  b '.split()|'a b c'.split(none, 1)|'a,b,c'.rsplit(',', 1)|'a b c'.split(' ')[-1]|'a\\nb\\r\\nc'.splitlines()|'abc'.split('b')[0]|''.split()|''.split(',')
'  a '.strip()|'  a '.lstrip()|'  a '.rstrip()|'xxaxy'.strip('xy')|'\\n\\na\\n'.strip('\\n')|'abc'.lstrip('a')|'abc'.rstrip('c')|'a\\x1c'.strip()
'abc'.startswith('ab')|'abc'.endswith('bc')|'abc'.startswith(('x', 'a'))|'abc'.find('c')|'abc'.find('z')|'héc'.find('c')|'aXbX'.replace('X', '')|'aXbX'.replace('X', '-', 1)|'abab'.count('ab')|'abab'.count('')|'abc'.replace('', '-')
'Ab'.upper()|'Ab'.lower()|'hello world'.title()|"they're".title()|'hELLO'.capitalize()|'ß'.upper()|'ŉa'.capitalize()|'-'.join(['a', 'b'])|''.join(l | map('string'))|'{} {}'.format(1, 'a')|'{0}{1}{0}'.format('a', 'b')|'{x:>5}'.format(x='a')|'{:05.2f}'.format(3.14159)|'{{}}'.format()|'{:,}'.format(1234567)
'12'.isdigit()|'a'.isalpha()|' '.isspace()|'AB'.isupper()|'ab'.islower()|'a1'.isalnum()|'abc'.removeprefix('a')|'abc'.removesuffix('c')|'a-b'.partition('-')|'a'.ljust(3) ~ '.'|'a'.rjust(3)
[1, 2, 1].count(1)|[1, 2].index(2)|(1, 2).count(1)|l.append is defined|d.pop is defined|'x'.foo is defined
""".strip().split("\n")


def _lists():
    for block, separator in ((_EXPRESSIONS, "|"), (_FILTERS, "; ")):
        for i, line in enumerate(block):
            kind = "expression" if block is _EXPRESSIONS else "filter"
            for j, e in enumerate(_cut(line, separator)):
                yield f"{kind}_{i}_{j}", "{{ " + e + " }}", {"d": D, "l": L, "m": M}
    for i, line in enumerate(_METHODS):
        for j, e in enumerate(_cut(line, "|")):
            yield f"method_{i}_{j}", "{{ " + e + " }}", {"d": D, "l": L, "m": M}


def _cut(line, separator):
    """Cuts at separators outside quotes and brackets; '|list' and '| map' behind a call stay with it."""
    parts, depth, quote, start = [], 0, "", 0
    i = 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif depth == 0 and line.startswith(separator, i):
            parts.append(line[start:i])
            i += len(separator) - 1
            start = i + 1
        i += 1
    return parts + [line[start:]]


_STATEMENTS = {
    "if": "{% if a %}A{% elif b %}B{% else %}C{% endif %}{% if not b %}D{% endif %}",
    "if_tuple": "{% if a, %}t{% endif %}",
    "for": "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ x }};{% endfor %}",
    "for_else": "{% for x in [] %}x{% else %}none{% endfor %}{% for x in [1] %}x{% else %}none{% endfor %}",
    "for_filter": "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}",
    "for_unpack": "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k, (a, b) in [(1, (2, 3))] %}{{ k }}{{ a }}{{ b }}{% endfor %}",
    "for_items_filter": "{% for k, v in d|items %}{{ k }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
    "for_neighbours": "{% for x in l %}[{{ loop.previtem }}|{{ loop.nextitem }}|{{ loop.previtem is defined }}]{% endfor %}",
    "for_string": "{% for c in 'aé😀' %}{{ c }}.{% endfor %}",
    "for_recursive": "{% for n in t recursive %}{{ n.v }}{{ loop.depth }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}",
    "for_changed": "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}",
    "for_cycle": "{% for x in l %}{{ loop.cycle('odd', 'even') }} {% endfor %}",
    "break": "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "continue": "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "range": "{% for i in range(3) %}{{ i }}{% endfor %}{{ range(1, 10, 3) | list }}{{ range(3, 0, -1) | list }}{{ range(2) }}{{ range(5)[1:3] | list }}",
    "set": "{% set x = 1 %}{% set y, z = 2, 3 %}{{ x }}{{ y }}{{ z }}{% set x = x + 1 %}{{ x }}{% set t = 1, 2 %}{{ t }}",
    "set_scope": "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}",
    "set_in_loop": "{% for i in l %}{{ q is defined }}{% set q = i %}{{ q }}{% endfor %}",
    "set_block": "{% set x %}a{{ l }}b{% endset %}[{{ x }}]{% set y | upper | trim %} q {% endset %}[{{ y }}]",
    "namespace": "{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{% set ns.c = [] %}{{ ns.c }}{{ ns.zz is defined }}",
    "namespace_dict": "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}",
    "macro": "{% macro m(a, b=2, c='x') %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 5) }}{{ m(1, c='z') }}{{ m() }}",
    "macro_scope": "{% set g = 'G' %}{% macro m() %}{{ g }}{{ loc is defined }}{% endmacro %}{% for loc in [1] %}{{ m() }}{% endfor %}{% set g = 'H' %}{{ m() }}",
    "macro_default_chain": "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}",
    "macro_recursive": "{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "macro_varargs": "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}",
    "macro_star": "{% macro m(a, b) %}{{ a }}-{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}",
    "macro_string": "{% macro m() %} x {% endmacro %}{{ m() | trim }}{{ m().strip() ~ '.' }}{{ m() is string }}",
    "call": "{% macro m(x) %}[{{ x }}{{ caller() }}]{% endmacro %}{% call m(1) %}body{% endcall %}",
    "call_args": "{% macro m() %}{{ caller(5) }}{% endmacro %}{% call(n) m() %}n={{ n }}{% endcall %}",
    "with": "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{{ b is defined }}",
    "filter_block": "{% filter upper | trim %} hello {{ l }} {% endfilter %}|",
    "generation": "a{% generation %}b{{ l }}{% endgeneration %}c",
    "raw": "{% raw %}{{ x }}{% if %}{% endraw %}|{%- raw -%}  a  {%- endraw -%}  b",
    "comment": "a{# c {{ x }} #}b  {#- d -#}  c\n  {# e #}\nd",
    "print": "{% print 1 + 1 %}",
    "trim_blocks": "{% if true %}\nx\n{% endif %}\ny\n  {% if true %}  \n z{% endif %} \n",
    "lstrip_blocks": "  {% set a = 1 %}\n  a  {% set b = 1 %}\n\t{% if true %}b{% endif %}\n  {{ 1 }}\n  {# c #}\nx   {%+ if true %}y{% endif +%}\nz",
    "whitespace_control": "a  {%- if true -%}  b  {%- endif -%}  c  {{- 1 -}}  d\n\n{%- set x = 1 %}\n\ne {{ 2 -}} \n f",
    "newlines": "a\r\nb\rc\n\n",
    "trailing_newline": "x\n",
    "string_literals": "{{ 'a\\nb' }}{{ \"q\\\"q\" }}{{ 'multi\nline' }}{{ 'é' 'ü' }}{{ '\\u00e9\\x41\\101\\q' }}{{ '\\\\' }}",
    "colon": "{% if true: %}a{% endif %}{% for x in l: %}{{ x }}{% endfor %}",
    "dict_access": "{{ {'a': {'b': [1, {'c': 5}]}}.a.b[1].c }}{{ d['é']['k'] }}{{ {'x': 1}['x'] }}{{ {1: 'i'}[1] }}{{ {'}}': 1} }}",
    "generator_truth": "{{ 'T' if m | selectattr('role', 'eq', 'zz') else 'F' }}{{ 'T' if m | selectattr('role', 'eq', 'zz') | list else 'F' }}",
    "generator_once": "{% set g = l | map('string') %}{{ g | join }}|{{ g | join }}",
    "undefined": "[{{ undef }}]{% if undef %}a{% endif %}{% for x in undef %}x{% endfor %}{{ undef ~ 'a' }}{{ 'a' in undef }}{{ [undef] | length }}",
    "dict_function": "{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ dict([('k', 'v')]) }}",
    "joiner": "{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "from_inside": "{% set x = {'a': [1, 2]} %}{{ x.a[0] + x['a'][-1] }}{{ (l | first) + 1 }}{{ l[l | length - 1] }}",
    "inline_if_chain": "{{ 'a' if false else 'b' if false else 'c' }}{{ ('x' if true) ~ ('y' if false) }}",
    "test_with_filter": "{{ l | length is gt 2 }}{{ (l | length) > 2 and m[0].role is in ['user', 'x'] }}",
    "concat_precedence": "{{ 1 + 2 ~ 3 + 4 }}{{ 2 * 3 ~ 1 }}{{ 'a' ~ -1 | abs }}",
    "unicode_space": "\u00a0 {%- if true %}x{% endif -%} \u00a0y\u2003{{- 1 }}",
    "multi_assign_loop": "{% for m_ in m %}{% set role = m_.role %}{% if role == 'user' %}{% set role = 'U' %}{% endif %}{{ role }}{% endfor %}",
    "false_input": "{{ none | map('upper') | list }}{{ 0 | select | list }}{{ false | selectattr('a') | list }}",
    "sort_undefined": "{{ d | sort(attribute='n') }}",
    "parity": "{{ 2.5 is even }}{{ 2.5 is odd }}{{ 3.0 is odd }}{{ 7.5 is divisibleby 2.5 }}",
    "wordcount": "{{ '1+1? a_b-c é' | wordcount }}",
    "truncate_others": "{{ d | truncate(5) }}{{ undef | truncate(5) }}",
    "percent_others": "{{ 'a' % undef }}{{ 'a' % [1] }}{{ 'a' % {'x': 1} }}",
    "errors_slice_int": "{{ l[0][1:] }}",
    "errors_slice_dict": "{{ d[1:] }}",
    "errors_truncate_int": "{{ a | truncate(5) }}",
    "errors_groupby_undefined": "{{ 'abc' | groupby('role') | list }}",
    "errors_undefined_attribute": "{{ undef.x }}",
    "errors_call_undefined": "{{ undef() }}",
    "errors_add_none": "{{ 'a' + none }}",
    "errors_raise": "{{ raise_exception('my message') }}",
    "errors_append": "{{ l.append(1) }}",
    "errors_pop": "{{ d.pop('a') }}",
    "errors_update": "{{ d.update({'a': 1}) }}",
    "errors_unknown_filter": "{{ l | zzz }}",
    "errors_unpack": "{% for a, b in [1] %}{% endfor %}",
    "errors_dunder": "{{ l.__class__ }}{{ l.__class__.__name__ }}",
    "errors_namespace_private": "{% set ns = namespace() %}{% set ns._a = 1 %}",
    "errors_set_attribute": "{% set d.x = 1 %}",
    "errors_macro_arguments": "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "errors_syntax": "{% if %}",
    "errors_endfor": "{% for x in l %}{{ x }}",
    "errors_tojson_undefined": "{{ undef | tojson }}",
    "errors_divide": "{{ 1 // 0 }}",
    "errors_compare": "{{ 1 < 'a' }}",
    "errors_generator_length": "{{ l | map('string') | length }}",
    "unknown_filter_not_reached": "{% if false %}{{ l | zzz }}{% endif %}ok",
}
_TREE = [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}, {"v": 5, "c": []}]



def _lines():
    """constructs.txt: one template or expression a line, with ⏎ for a line feed."""
    text = (pathlib.Path(__file__).parent / "constructs.txt").read_text(encoding="utf-8")
    for i, line in enumerate(text.splitlines()):
        template = line if "{%" in line or "{{" in line or "{#" in line else "{{ " + line + " }}"
        yield f"line_{i + 1}", template.replace("⏎", "\n"), {"a": 0, "b": 1, "d": D, "l": L, "m": M}


CONSTRUCTS = list(_lists()) + list(_lines()) + [(k, v, {"a": 0, "b": 1, "d": D, "l": L, "m": M, "t": _TREE})
                               for k, v in _STATEMENTS.items()]

SHAPES = {
    "chatml": """{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
    "qwen35": """
{%- macro content_text(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- elif content is iterable and content is not mapping -%}
        {%- for part in content -%}
            {%- if 'text' in part -%}{{- part.text -}}{%- elif 'image' in part -%}<|image_pad|>{%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- content_text(messages[0].content) + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + content_text(messages[0].content) + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = content_text(message.content) | trim %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if call.function is defined %}{%- set call = call.function %}{%- endif %}
                {{- '\\n<tool_call>\\n<function=' + call.name + '>\\n' }}
                {%- for name, value in call.arguments|items %}
                    {{- '<parameter=' + name + '>\\n' }}
                    {{- value if value is string else value | tojson }}
                    {{- '\\n</parameter>\\n' }}
                {%- endfor %}
                {{- '</function>\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != "tool" %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{- '<think>\\n' }}{%- endif %}
{%- endif %}
""",
    "llama3": """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday: " + date_string + "\\n\\n" + system + "<|eot_id|>" }}
{%- if tools is not none %}{% for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{% endfor %}{%- endif %}
{%- for message in messages %}
    {%- if message.tool_calls is defined %}
        {%- if message.tool_calls|length != 1 %}{{- raise_exception("only one call") }}{%- endif %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + message.tool_calls[0].function.name + '", "parameters": ' }}
        {{- message.tool_calls[0].function.arguments | tojson }}{{- "}<|eot_id|>" }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + (message['content'] | string | trim) + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}{%- set system_message = messages[0]["content"] %}{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}
{{- bos_token }}
{%- set ns = namespace() %}{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "system" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}{{- raise_exception("roles must alternate") }}{%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}{{- "[INST] " + system_message + "\\n\\n" + message["content"]|string + "[/INST]" }}{%- else %}{{- "[INST] " + message["content"]|string + "[/INST]" }}{%- endif %}
    {%- elif message["role"] == "assistant" %}{{- " " + message["content"]|default("")|trim + eos_token }}
    {%- elif message["role"] == "tool" %}{{- '[TOOL_RESULTS] {"content": ' + message.content|string + "}[/TOOL_RESULTS]" }}
    {%- endif %}
{%- endfor %}
""",
    "gemma": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] ~ '\n\n' %}{% set rest = messages[1:] %}{% else %}{% set first = '' %}{% set rest = messages %}{% endif %}
{%- for message in rest -%}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
{{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}
{%- if message['content'] is string -%}{{ message['content'] | trim }}
{%- elif message['content'] is iterable -%}{%- for item in message['content'] -%}{%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}{%- endfor -%}
{%- endif -%}
{{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
""",
    "deepseek": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\\n\\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{ '<｜User｜>' + (message['content'] | string) }}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] %}{%- set content = message['content'] | string -%}{% if '</think>' in content %}{% set content = content.split('</think>', 1)[-1] %}{% endif %}{{ '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' }}{%- endif %}{%- if message['role'] == 'tool' %}{{ '<｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>' }}{%- endif %}{%- endfor -%}{% if add_generation_prompt and not ns.is_tool %}{{ '<｜Assistant｜>' }}{% endif %}""",
    "gpt_oss": """{#- Harmony-like -#}
{%- macro render_type(p, required=false) -%}
    {%- if p.type == "array" -%}{%- if p['items'] -%}{{- render_type(p['items']) + "[]" }}{%- else -%}any[]{%- endif -%}
    {%- elif p.type is iterable and p.type is not string and p.type is not mapping and p.type | length > 1 -%}{{- p.type | join(" | ") }}
    {%- elif p.type == "integer" or p.type == "number" -%}number
    {%- elif p.type == "object" -%}{ {%- for k, v in p.properties.items() -%}{{ k }}{{ '' if k in (p.required or []) else '?' }}: {{ render_type(v) }}{% if not loop.last %}, {% endif %}{%- endfor -%} }
    {%- else -%}{{ p.type | default('any') }}{%- endif -%}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}
{{- (model_identity if model_identity is defined else "You are a model.") + "\\n" }}
{{- "Current date: " + strftime_now("%Y-%m-%d") + "\\n\\n" }}
{%- if reasoning_effort is not defined %}{%- set reasoning_effort = "medium" %}{%- endif %}
{{- "Reasoning: " + reasoning_effort + "<|end|>" }}
{%- if tools -%}{{- "<|start|>developer<|message|>" }}{%- for tool in tools %}{%- set f = tool.function %}{{- "// " + f.description + "\\ntype " + f.name + " = (_: " + render_type(f.parameters) + ") => any;\\n" }}{%- endfor %}{{- "<|end|>" }}{%- endif %}
{%- set last_call = namespace(name=none) %}
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "tool_calls" in message %}
            {%- if message.thinking %}{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}{%- endif %}
            {%- set call = message.tool_calls[0] %}{%- if call.function %}{%- set call = call.function %}{%- endif %}
            {{- "<|start|>assistant to=functions." + call.name + "<|channel|>commentary json<|message|>" }}{{- call.arguments|tojson }}{{- "<|call|>" }}
            {%- set last_call.name = call.name %}
        {%- else %}
            {%- if "thinking" in message and loop.last and not add_generation_prompt %}{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}{%- endif %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_call.name is none %}{{- raise_exception("tool message without a call") }}{%- endif %}
        {{- "<|start|>functions." + last_call.name + " to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }}
    {%- else -%}
        {{- "<|start|>" ~ message.role ~ "<|message|>" ~ message.content ~ "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
""",
}

_CALL = {"role": "assistant", "content": None, "reasoning_content": "I look.", "tool_calls": [
    {"type": "function", "function": {"name": "weather", "arguments": {"place": "Köln", "days": 2, "deep": {"a": [1, None]}}}}]}
CHATS = [
    ("one", [{"role": "user", "content": "Hi"}], None, True, {}),
    ("system", [{"role": "system", "content": " Be kind. "}, {"role": "user", "content": "Hallo, wie geht's?\n"}], None, True, {}),
    ("turns", [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "<think>\nadd\n</think>\n\n2"},
               {"role": "user", "content": "<b>&'\"</b>"}], None, True, {"enable_thinking": False, "reasoning_effort": "high"}),
    ("closed", [{"role": "user", "content": "Q"}, {"role": "assistant", "content": " A ", "thinking": "T\n"}], None, False, {}),
    ("tools", [{"role": "user", "content": "Weather?"}, _CALL, {"role": "tool", "content": "{\"t\": 21}"},
               {"role": "assistant", "content": "21 degrees"}, {"role": "user", "content": "Thanks"}], [TOOL], True, {}),
    ("no_tools", [{"role": "user", "content": "x"}], [], True, {"date_string": "1 Jan 2020"}),
    ("parts", [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " what is it? "}]}], None, True, {}),
    ("two_users", [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], None, True, {}),
]
SHAPES |= MORE_SHAPES
CHATS += MORE_CHATS
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
DATE = 1785067200  # 2026-07-26
