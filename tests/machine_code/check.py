#!/usr/bin/env python3
"""check.py CUOBJDUMP OBJECT...: what nvcc made of the kernels (sm_90a), held against the table in kernels/README.md.

Every kernel: no local memory but where it is listed, and no conversion to bf16 by the slow unit. Those of the table:
instructions for one unit of work, so that what was made cheap does not grow back unseen, and the table stays true.
--table prints the rows as they are now.
"""

import re
import sys
from pathlib import Path

import machine_code

README = Path(__file__).resolve().parents[2] / "kernels" / "README.md"
ROW = re.compile(r"^\| `([^`]+)` \| (loop|kernel) \| (\w+) \| [^|]* \| ([\d.]+) \|$")
MOST, LEAST = 1.05, 0.8  # of the table's number

# Local memory that is no spill (arrays that are indexed, slow paths of the sine), and spills that are known.
LOCAL_MEMORY = {
    r"rope_table_kernel<.*": 40,  # reduction of large angles in double
    r"recurrence_tiles_kernel<.*": 48,
    r"delta_tiles_kernel<.*": 96,  # two blocks of 256 threads on a multiprocessor
    r"sample_rungs_kernel<.*": 16,
}

WIDTHS = {"128": 16, "64": 8, "U16": 2, "U8": 1}


def bytes_of(instruction):
    return next((n for word, n in WIDTHS.items() if word in instruction.opcode.split(".")), 4)


def units(instructions, per, bytes_of_value):
    """How much work: values of memory, or products on tensor cores."""
    if per == "HMMA":
        return sum(i.base == "HMMA" for i in instructions)
    opcode = {"stored": "STG", "loaded": "LDG"}[per]
    return sum(bytes_of(i) for i in instructions if i.base == opcode) / bytes_of_value


def per_unit(function, scope, per):
    bytes_of_value = 2 if "bf16" in function.name else 4
    if scope == "kernel":
        return len(function.code) / units(function.code, per, bytes_of_value)
    busy = [loop for loop in function.loops() if units(loop, per, bytes_of_value) > 0]
    if not busy:
        sys.exit(f"machine code: no loop of {function.name} has anything {per}")
    largest = max(busy, key=len)
    return len(largest) / units(largest, per, bytes_of_value)


def allowed_stack(name):
    return next((most for pattern, most in LOCAL_MEMORY.items() if re.fullmatch(pattern, name)), 0)


def faults_of_all(functions):
    for f in functions:
        if f.stack > allowed_stack(f.name):
            yield f"{f.name} has {f.stack} bytes of local memory, allowed are {allowed_stack(f.name)}"
        if any(i.opcode.startswith("F2F.BF16") for i in f.code):
            yield f"{f.name} rounds to bf16 by F2F, a sixteenth of the rate of F2FP; see rounded_to() in device/real.cuh"


def main(arguments):
    show = "--table" in arguments
    cuobjdump, *objects = [a for a in arguments if a != "--table"]
    functions = [f for path in objects for f in machine_code.read(cuobjdump, path)]
    by_name = {f.name: f for f in functions}
    rows = [found.groups() for line in README.read_text().splitlines() if (found := ROW.match(line))]
    faults = list(faults_of_all(functions))
    if not rows:
        faults.append(f"{README}: no table of instructions")
    for name, scope, per, stated in rows:
        if name not in by_name:
            faults.append(f"{name}: there is no such kernel")
            continue
        now = per_unit(by_name[name], scope, per)
        if show:
            print(f"| `{name}` | {scope} | {per} | {now:.1f}")
        if not LEAST * float(stated) <= now <= MOST * float(stated):
            faults.append(f"{name}: {now:.1f} instructions for each {per}, the table says {stated}")
    for fault in faults:
        print(f"machine code: {fault}", file=sys.stderr)
    print(f"machine code: {len(functions)} kernels, {len(rows)} of the table, {len(faults)} fault(s)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
