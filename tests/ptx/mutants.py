"""Spoils the kernels on purpose, one fault after the other, and says which parity case of nvcc's code turns red.

    mutants.py BUILD [NAME...]

BUILD holds test_parity_ptx, and the nvcc that it was made with in its CMakeCache.txt. Works on a copy of kernels/ in build/ptx-mutants; only the device's code is spoiled, so that the
program stays what it is. Fails where a fault stays green, or does not fit its source any more.
"""
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
COPY = TREE / "build" / "ptx-mutants"


@dataclass
class Mutant:
    name: str
    source: str  # of the kernels that are compiled again, without .cu
    cases: str  # that must turn red: a gtest filter
    file: str = ""
    old: str = ""
    new: str = ""
    options: tuple = ()


# What stands in ldmatrix between its name and its clobber.
LOADED = """.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)"""

MUTANTS = [
    Mutant("none", "attention", "Cases/AttentionParity.*"),
    Mutant("swapped-operand", "attention", "Cases/AttentionParity.*", "device/mma.cuh", "{%8, %9}", "{%9, %8}"),
    Mutant("missing-clobber", "attention", "Cases/AttentionParity.*", "device/mma.cuh",
           'asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans' + LOADED + '\n               : "memory");',
           'asm("ldmatrix.sync.aligned.m8n8.x4.trans' + LOADED + ");"),
    Mutant("transposed-load", "attention", "Cases/AttentionParity.*", "device/mma.cuh", ".x4.trans.shared", ".x4.shared"),
    Mutant("eight-byte-alignment", "glu", "*Elementwise*:Fused.*", "device/row.cuh",
           "const auto x = *reinterpret_cast<const Pack<T, kVector>*>(row + part.first + i);",
           "const auto x = *reinterpret_cast<const Pack<T, kVector>*>(row + part.first + i + kVector / 2);"),
    Mutant("longer-parameter", "heads", "Rope.*", "kernels.h", "  float eps;\n};\nvoid project_heads(",
           "  float eps;\n#ifdef __CUDACC__\n  int64_t more;\n#endif\n};\nvoid project_heads("),
    Mutant("fast-math", "glu", "*Elementwise*:Fused.*", options=("-use_fast_math",)),
]


def compile_mutant(nvcc, mutant, out):
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(TREE / "kernels", COPY / "kernels")
    if mutant.file:
        path = COPY / "kernels" / mutant.file
        text = path.read_text()
        if text.count(mutant.old) != 1:
            sys.exit(f"mutants: {mutant.name}: kernels/{mutant.file} has its text {text.count(mutant.old)} times, expected once")
        path.write_text(text.replace(mutant.old, mutant.new))
    subprocess.run([nvcc, "-std=c++20", "-O3", "--fmad=false", "-I.", f"-I{TREE}/lib", "-ptx", "-arch=compute_80",
                    *mutant.options, "-o", out / f"{mutant.source}.ptx", f"kernels/{mutant.source}.cu"],
                   cwd=COPY, check=True, stdout=subprocess.DEVNULL)


def first_failure(output):
    said = re.search(r"running nvcc's .*|\S+:\d+: Failure\n.*", output)
    return re.sub(r"\s+", " ", said[0])[:250] if said else ""


def main():
    build, *names = sys.argv[1:]
    nvcc = re.search(r"^KVCAL_NVCC:\w+=(.*)$", (Path(build) / "CMakeCache.txt").read_text(), re.M)[1]
    test = Path(build).resolve() / "tests" / "ptx" / "test_parity_ptx"
    built = test.parent / "kernels"
    green = []
    for mutant in MUTANTS:
        if names and mutant.name not in names:
            continue
        out = TREE / "build" / "ptx-mutants.ptx"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(built, out)
        compile_mutant(nvcc, mutant, out)
        same = (out / f"{mutant.source}.ptx").read_text() == (built / f"{mutant.source}.ptx").read_text()
        ran = subprocess.run([test, f"--gtest_filter={mutant.cases}", "--gtest_brief=1"], capture_output=True, text=True,
                             env={**os.environ, "KVCAL_PTX": str(out)})
        red = len(re.findall(r"^\[  FAILED  \] .*\(\d+ ms\)$", ran.stdout, re.M))
        ended = "" if ran.returncode in (0, 1) else f", ended with {ran.returncode}"
        print(f"{mutant.name}: {red} cases red{ended}{' (the code is the same)' if same else ''}: {first_failure(ran.stdout)}", flush=True)
        if (ran.returncode == 0) != (mutant.name == "none"):
            green.append(mutant.name)
    if green:
        sys.exit(f"mutants: not as expected: {', '.join(green)}")


main()
