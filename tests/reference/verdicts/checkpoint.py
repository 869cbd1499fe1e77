"""The checkpoint of a case, from its tables and tests/verdicts/classes.json, which the C++ test reads as well."""
import json
import struct
from pathlib import Path

import numpy as np

from case_layer import N_TOKENS, prompts
from tables import to_bf16

FOLDER = Path(__file__).resolve().parents[2] / "verdicts"
CLASSES = json.loads((FOLDER / "classes.json").read_text())


def config_of(case):
    """Words that begin with $ stand for the case's own members; what the case does not have is left out."""
    config = {}
    for key, value in CLASSES[case["class"]]["config"].items():
        if not (isinstance(value, str) and value.startswith("$")):
            config[key] = value
        elif value[1:] in case:
            config[key] = case[value[1:]]
    return config


def tensor(recipe, tables):
    if "one_hot" in recipe:
        return to_bf16(np.eye(N_TOKENS) * recipe["one_hot"])
    if "constant" in recipe:
        return to_bf16(np.full(recipe["shape"], recipe["constant"], float))
    table = tables[recipe["table"]]
    if recipe.get("flat"):
        return table.ravel()
    return np.ascontiguousarray(table.T) if recipe.get("transposed") else table


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [offset, offset + t.nbytes]}
        offset += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.astype("<u2").tobytes())


def write_checkpoint(folder, case, tables):
    """config.json, model.safetensors and prompts.jsonl"""
    (folder / "config.json").write_text(json.dumps(config_of(case), indent=1))
    recipes = CLASSES[case["class"]]["tensors"]
    write_safetensors(folder / "model.safetensors", {n: tensor(r, tables) for n, r in recipes.items()})
    lines = [json.dumps({"id": f"p{i}", "input_ids": ids.tolist()}) for i, ids in enumerate(prompts(case))]
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")
