#!/usr/bin/env python3
"""Lists the classes that servers generate text with, by the registries inside their packages.

    python3 tests/reference/served_classes.py VLLM_WHEEL SGLANG_WHEEL

Writes tests/documents/served_classes.tsv: a class a line, with a word for each server: "own" code, a "fallback" to the
reference framework's, or "-". test_documents compares it with what kvcal reads and makes the tables of docs/models.md.
The registries are read as text; nothing of the packages is run.
"""

import ast
import re
import sys
import zipfile
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "documents" / "served_classes.tsv"
VLLM_REGISTRY = "vllm/model_executor/models/registry.py"
VLLM_TABLES = {"_TEXT_GENERATION_MODELS": "own", "_MULTIMODAL_MODELS": "own", "_TRANSFORMERS_SUPPORTED_MODELS": "fallback"}
SGLANG_MODELS = re.compile(r"sglang/srt/models/(\w+/)?\w+\.py")
# SGLang keeps them in one folder: what scores, embeds, encodes, drafts, or stands for any class.
OTHER = re.compile(r"Classif|Reward|Embedding|Eagle|EAGLE|MTP|NextN|Draft|Bert|Roberta|BERT|CLIPModel|^Transformers|"
                   r"SequenceScoring|DFlash|DSpark|Whisper|Assistant|Bidirectional|Contriever|VisionModel|^TorchNative|MindSpore|"
                   r"^(Llama|Mistral|Qwen2|Qwen3|Gemma2|Gemma3Text)Model$")


def tables_of(source: str) -> dict[str, list[str]]:
    """Names of a module's dictionaries -> their keys that are strings."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            keys = [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
            found.update({target.id: keys for target in node.targets if isinstance(target, ast.Name)})
    return found


def vllm_classes(wheel: str) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        tables = tables_of(archive.read(VLLM_REGISTRY).decode())
    return {name: how for table, how in VLLM_TABLES.items() for name in tables[table]}


def entry_classes(source: str) -> list[str]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "EntryClass" for t in node.targets):
            values = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
            return [value.id for value in values if isinstance(value, ast.Name)]
    return []


def sglang_classes(wheel: str) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        sources = [archive.read(name).decode() for name in archive.namelist() if SGLANG_MODELS.fullmatch(name)]
    return {name: "own" for source in sources for name in entry_classes(source) if not OTHER.search(name)}


def version_of(wheel: str) -> str:
    return "@".join(Path(wheel).name.split("-")[:2])


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    vllm, sglang = vllm_classes(sys.argv[1]), sglang_classes(sys.argv[2])
    if len(vllm) < 200 or len(sglang) < 100:
        print(f"only {len(vllm)} and {len(sglang)} classes were found: the registries have another form", file=sys.stderr)
        return 1
    lines = ["\t".join(("class", version_of(sys.argv[1]), version_of(sys.argv[2])))]
    lines += ["\t".join((name, vllm.get(name, "-"), sglang.get(name, "-"))) for name in sorted({*vllm, *sglang})]
    OUT.write_text("\n".join(lines) + "\n")
    print(f"{len(vllm)} classes of vLLM, {len(sglang)} of SGLang, {len(lines) - 1} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
