# Says as JSON what vLLM and SGLang are installed for this Python, from their sources: importing them starts CUDA.
import posix
import sys

# What lies in the current folder is not installed. An empty item of PYTHONPATH stands for it, too, as a full path.
sys.path[:] = [p for p in sys.path if p not in ("", posix.getcwd())]
import ast
import json
import os
import re
from importlib import metadata, util


def source(folder, *names):
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                yield file.read(8 << 20)
        except OSError:
            pass


def nodes(folder, *names):
    for text in source(folder, *names):
        try:
            yield from ast.walk(ast.parse(text))
        except SyntaxError:
            pass


def target(node):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return targets[0].id if targets and isinstance(targets[0], ast.Name) else ""


def strings(node):
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def vllm(folder):
    types, backends, classes = [], [], []
    for node in nodes(folder, "config/cache.py", "config/__init__.py", "config.py"):
        if target(node) == "CacheDType" and node.value is not None:
            types += strings(node.value)
    for node in nodes(folder, "v1/attention/backends/registry.py", "attention/backends/registry.py"):
        if isinstance(node, ast.ClassDef) and node.name == "AttentionBackendEnum":
            backends += [target(n) for n in node.body if target(n)]
    for node in nodes(folder, "model_executor/models/registry.py"):
        name = target(node)
        if re.fullmatch("_(?!PREVIOUSLY|OOT)[A-Z_]+_MODELS", name) and isinstance(node.value, ast.Dict):
            classes += [k.value for k in node.value.keys if isinstance(k, ast.Constant)]
    return types, backends, classes


def choices(node):
    """Of an option for the cache's type: a field of a class, or a call that adds it to a parser."""
    called = isinstance(node, ast.Call) and node.args and "--kv-cache-dtype" in strings(node.args[0])
    if called or (isinstance(node, ast.AnnAssign) and target(node) == "kv_cache_dtype"):
        return [s for n in ast.walk(node) if isinstance(n, ast.keyword) and n.arg == "choices" for s in strings(n.value)]
    return []


def sglang(folder):
    types, backends, classes = [], [], []
    for node in nodes(folder, "srt/server_args.py", "srt/arg_groups/fields/model.py", "srt/arg_groups/choices.py"):
        types += choices(node)
        if target(node) == "ATTENTION_BACKEND_CHOICES":
            backends += strings(node.value)
    models = os.path.join(folder, "srt", "models")
    for name in sorted(os.listdir(models)) if os.path.isdir(models) else []:
        for text in source(models, name) if name.endswith(".py") else []:
            for found in re.findall(r"^EntryClass\s*=\s*(\[[^\]]*\]|\w+)", text, re.M):
                classes += re.findall(r"\w+", re.sub("#.*", "", found))
    return types, backends, classes


found = []
for name, look in (("vllm", vllm), ("sglang", sglang)):
    spec = util.find_spec(name)
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders:
        continue
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = ""
    lists = [sorted(set(words)) for words in look(folders[0])]
    found.append(dict(zip(("cache_types", "backends", "architectures"), lists), server=name, version=version))
print(json.dumps({"installed": found}))
