"""Functions of a package's source, executed without importing the package: what they call stands in `names`."""
import ast
import functools
import textwrap


def functions(path, wanted, names):
    """{name: function} of `wanted`, module-level or methods as "Class.method"; annotations are left out."""
    found = {}
    for node in _parsed(path).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = node.name + "." if isinstance(node, ast.ClassDef) else ""
        for item in inner:
            if isinstance(item, ast.FunctionDef) and prefix + item.name in wanted:
                found[prefix + item.name] = _made(item, names)
    missing = set(wanted) - set(found)
    if missing:
        raise SystemExit(f"{path} has no {sorted(missing)}: another version?")
    return found


def constant(path, name):
    """The value of a module-level assignment of a literal."""
    for node in _parsed(path).body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", None) == name for t in node.targets):
            return ast.literal_eval(node.value)
    raise SystemExit(f"{path} has no {name}: another version?")


@functools.lru_cache(maxsize=None)
def _parsed(path):
    return ast.parse(open(path, encoding="utf-8").read())


def _made(item, names):
    item.decorator_list = []
    for node in ast.walk(item):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for arg in node.args.args + node.args.kwonlyargs:
                arg.annotation = None
    scope = dict(names)
    exec(compile(textwrap.dedent(ast.unparse(item)), item.name, "exec"), scope)
    names.setdefault(item.name, scope[item.name])
    return scope[item.name]
