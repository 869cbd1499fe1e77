"""Reads a *.kvstats file for tests, by the layout of safetensors."""

import json
from pathlib import Path

import numpy as np

_TYPES = {"U8": "u1", "U16": "<u2", "BF16": "<u2", "F32": "<f4", "I64": "<i8", "U64": "<u8", "F64": "<f8"}


class StatisticsFile:
    def __init__(self, path):
        data = Path(path).read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:end])
        self.metadata = json.loads(header.pop("__metadata__")["kvcal"])
        self.tensors = {name: np.frombuffer(data[end:][slice(*t["data_offsets"])], _TYPES[t["dtype"]]).reshape(t["shape"])
                        for name, t in header.items()}

    def site(self, cache, site):
        prefix = f"c{cache}.{site}."
        return {name[len(prefix):]: x for name, x in self.tensors.items() if name.startswith(prefix)}


def histogram(site):
    """[heads, 0x8000]: values by code."""
    counts = np.zeros((len(site["absmax"]), 0x8000), np.int64)
    heads = np.repeat(np.arange(len(counts)), np.diff(site["head_offsets"].astype(np.int64)))
    counts[heads, site["hist_index"]] = site["hist_count"]
    counts[:, 0] = site["zero"]
    return counts


def sites_of(layout):
    return ("latent", "rope", "query") if layout["kind"] == "mla" else ("key", "value", "query")
