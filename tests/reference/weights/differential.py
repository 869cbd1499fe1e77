"""Compares the weights that kvcal decodes with those of the formats' own packages, on random checkpoints.

    python differential.py DRIVER [--variants N] [--seed S] [FORMAT...]

Every variant is a checkpoint of one weight as a tool writes it (formats.py, tools.py), with the weight that the tool's
own code makes of it. The driver (driver.cpp) decodes the checkpoint; each element must be equal in bf16. A variant that
is not to be read has the words that its refusal must hold. Ends with 1 when one differs, and leaves its folder.
Packages that are not installed are named and their formats passed over.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import formats
import tools


def write(folder: Path, variant) -> None:
    folder.mkdir(parents=True)
    config = {"architectures": ["LlamaForCausalLM"]} | variant.config
    (folder / "config.json").write_text(json.dumps(config))
    for name, content in variant.files.items():
        (folder / name).write_text(json.dumps(content))
    save_file({k: v.contiguous() for k, v in variant.tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    save_file({k: v.contiguous() for k, v in variant.expected.items()}, folder / "expected.safetensors")


def judge(folder: Path, variant, answer: dict) -> str:
    """What is wrong, or "" """
    error = answer.get("error", "")
    if variant.refused:
        missing = [words for words in variant.refused if words.lower() not in error.lower()]
        return f"expected a refusal with {missing}, got {error or 'weights'}" if missing else ""
    if error:
        return f"refused: {error}"
    if answer["unclaimed"]:
        return f"not used: {answer['unclaimed']}"
    actual = load_file(folder / "actual.safetensors")
    for name, expected in variant.expected.items():
        differ = (actual[name].view(torch.int16) != expected.view(torch.int16)) & ~((actual[name] == 0) & (expected == 0))
        if differ.any():
            where = differ.nonzero()[0].tolist()
            return (f"{name}: {differ.sum().item()} of {differ.numel()} elements differ, at {where} "
                    f"{actual[name][tuple(where)].item()} instead of {expected[tuple(where)].item()}")
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help="names of formats.py and tools.py (default: all)")
    parser.add_argument("--variants", type=int, default=40, help="of each format")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_intermixed_args()
    torch.set_grad_enabled(False)
    known, absent = formats.ALL | tools.available(), tools.absent()
    for package, names in absent.items():
        print(f"{package} is not installed, without it: {', '.join(names)}")
    root = Path(tempfile.mkdtemp(prefix="weights-"))
    driver = subprocess.Popen([options.driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    failed = 0
    for name, make in known.items():
        if options.formats and name not in options.formats:
            continue
        good = refused = 0
        for i in range(options.variants):
            seed = zlib.crc32(f"{name} {options.seed} {i}".encode())
            torch.manual_seed(seed)
            variant = make(random.Random(seed))
            folder = root / f"{name}-{i}"
            write(folder, variant)
            driver.stdin.write(f"{folder}\n")
            driver.stdin.flush()
            wrong = judge(folder, variant, json.loads(driver.stdout.readline()))
            if wrong:
                failed += 1
                print(f"{folder}: {variant.note}: {wrong}")
                continue
            refused, good = refused + bool(variant.refused), good + (not variant.refused)
            shutil.rmtree(folder)
        print(f"{name:28s} {good} equal" + (f", {refused} refused" if refused else ""), flush=True)
    driver.stdin.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
