"""What kvcal.Calibrator saves of a calibration after a weight update: the first call against the next ones.

    python refit_bench.py KVCAL MODEL_FOLDER [--runs 3] [--prompts 2] [--length 256]

MODEL_FOLDER comes from write_random_model. Each run begins a process of its own, calls it once, and again with the same
weights, after the last layer and a middle one changed, and after all did (the first alone is as much: the others follow from
it); what is refitted comes from a safetensors file, is compared and written as from memory, and the seconds of that count.
A first call that does not count brings the weights into the page cache. Prints ratios to the first call of the same run, as
median (least..most), and seconds; the scales of the last call must be the bytes of a fresh process.
"""

import argparse
import json
import pathlib
import statistics
import struct
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def imported(kvcal: str, scratch: pathlib.Path):
    """The package as a wheel has it, with this program."""
    package = scratch / "kvcal"
    (package / "bin").mkdir(parents=True)
    for module in SOURCE.glob("apps/python/kvcal/*.py"):
        (package / module.name).symlink_to(module)
    (package / "kv_cache_scales").symlink_to(SOURCE / "apps/plugins/kv_cache_scales")
    (package / "_version.py").write_text('__version__ = "0"\n')
    (package / "bin/kvcal").symlink_to(pathlib.Path(kvcal).resolve())
    sys.path.insert(0, str(scratch))
    sys.dont_write_bytecode = True
    import kvcal as module
    return module


def header_of(file: pathlib.Path) -> tuple[dict, int]:
    with file.open("rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
    header.pop("__metadata__", None)
    return header, 8 + n


def write_changed(model: pathlib.Path, layers: list[int], bits: int, to: pathlib.Path) -> None:
    """All tensors of these layers, these bits of each number turned."""
    prefixes = tuple(f"model.layers.{layer}." for layer in layers)
    parts, header, at = [], {}, 0
    for shard in sorted(model.glob("*.safetensors")):
        tensors, begin = header_of(shard)
        with shard.open("rb") as f:
            for name, tensor in sorted(tensors.items()):
                if not name.startswith(prefixes):
                    continue
                first, last = tensor["data_offsets"]
                f.seek(begin + first)
                data = bytearray(f.read(last - first))
                data[0::2] = data[0::2].translate(bytes(i ^ bits for i in range(256)))
                header[name] = {**tensor, "data_offsets": [at, at + len(data)]}
                at += len(data)
                parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with to.open("wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for data in parts:
            f.write(data)


def first_prompts(model: pathlib.Path, n: int, length: int) -> list[dict]:
    records = [json.loads(line) for line in (model / "prompts.jsonl").read_text().splitlines()[:n]]
    return [{**record, "input_ids": record["input_ids"][:length]} for record in records]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvcal")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--length", type=int, default=256)
    args = parser.parse_args()
    n_layers = json.loads((args.model / "config.json").read_text())["num_hidden_layers"]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        scratch = pathlib.Path(folder)
        kvcal = imported(args.kvcal, scratch)
        steps = {"nothing": [], "the last layer": [n_layers - 1], "a middle layer": [n_layers // 2],
                 "all layers": list(range(n_layers))}
        prompts = first_prompts(args.model, args.prompts, args.length)
        seconds: dict[str, list[float]] = {name: [] for name in ["the first call", *steps]}
        kept = {}
        for run in range(args.runs + 1):
            with kvcal.Calibrator(args.model, prompts=prompts, scratch=folder, quiet=True) as calibrator:
                calibrator.calibrate()
                found = {"the first call": calibrator.seconds}
                for bits, (name, layers) in enumerate(steps.items() if run > 0 else (), start=1):
                    write_changed(args.model, layers, bits, scratch / "changed.safetensors")
                    began = time.monotonic()
                    if layers:
                        calibrator.refit(scratch / "changed.safetensors")
                    last = calibrator.calibrate()
                    found[name], kept[name] = time.monotonic() - began, calibrator.layers_kept
                if run == args.runs:
                    with kvcal.Calibrator(calibrator._model, prompts=prompts, quiet=True) as fresh:
                        if fresh.calibrate().to_json() != last.to_json():
                            sys.exit("a fresh process has other scales")
            print(json.dumps({name: round(s, 2) for name, s in found.items()}), flush=True)
            if run > 0:
                for name, s in found.items():
                    seconds[name].append(s)
        print(f"{'changed':16} {'layers kept':>11}  of the first call")
        for name in steps:
            ratios = [s / first for s, first in zip(seconds[name], seconds["the first call"])]
            print(f"{name:16} {kept[name]:8} of {n_layers}  {statistics.median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f}),"
                  f" {statistics.median(seconds[name]):.1f} s")
        print(f"the first call: {statistics.median(seconds['the first call']):.1f} s")


if __name__ == "__main__":
    main()
