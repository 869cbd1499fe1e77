"""hardening.py FILE...: whether these programs and libraries are built as CMakeLists.txt says of what reads files of strangers.

Read from the ELF with readelf. A library that calls none of the C library's fortified functions is passed as it is; of the
program, which calls many, some have to be there.
"""

import re
import subprocess
import sys


def readelf(file, *options):
    return subprocess.run(["readelf", "-W", *options, file], check=True, stdout=subprocess.PIPE, text=True).stdout


def lacks(file):
    """What this file lacks, in words."""
    header, segments, dynamic = readelf(file, "-h"), readelf(file, "-l"), readelf(file, "-d")
    imported = set(re.findall(r"\bUND (\w+)@", readelf(file, "--dyn-syms")))
    program = "INTERP" in segments
    stack = re.search(r"GNU_STACK.* (R?W?E?) +0x", segments)
    has = {
        "a position of its own (PIE)": re.search(r"Type:\s+DYN", header),
        "immediate binding (BIND_NOW)": re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic),
        "relocations that are read-only (GNU_RELRO)": "GNU_RELRO" in segments,
        "a stack that cannot be executed": stack and "E" not in stack[1],
        "stack protectors": "__stack_chk_fail" in imported,
        "fortified functions": not program or any(re.fullmatch(r"__\w+_chk", name) for name in imported),
    }
    return [what for what, there in has.items() if not there]


def main(files):
    broken = [f"{file} lacks {', '.join(missing)}" for file in files if (missing := lacks(file))]
    if broken or not files:
        raise SystemExit("hardening: " + ("; ".join(broken) or "no file is named"))
    print(f"hardened: {len(files)} files")


if __name__ == "__main__":
    main(sys.argv[1:])
