"""symbols.py FILE...: the versions of symbols that these programs and libraries ask of the system, held against what
distributions have; and that they ask for no other libraries and look for none outside of their own folder.
"""

import pathlib
import re
import subprocess
import sys

# Of libc6 and libstdc++6 (libgcc-s1): the packages of the first release of each.
OFFERED = {
    "RHEL 9": {"GLIBC": "2.34", "GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "7.0.0"},
    "Ubuntu 22.04": {"GLIBC": "2.35", "GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"},
    "Debian 12": {"GLIBC": "2.36", "GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"},
    "Ubuntu 24.04": {"GLIBC": "2.39", "GLIBCXX": "3.4.33", "CXXABI": "1.3.15", "GCC": "14.0.0"},
    "Debian 13": {"GLIBC": "2.41", "GLIBCXX": "3.4.33", "CXXABI": "1.3.15", "GCC": "14.0.0"},
}
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libz.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def number(version):
    return tuple(map(int, version.split(".")))


def asked_of_system(dump):
    """{"GLIBC": "2.34"}: the newest of each kind in objdump's list of version references."""
    newest = {}
    library = ""
    for line in dump.split("Version References:")[-1].splitlines():
        if match := re.match(r"\s+required from (\S+):", line):
            library = match[1]
        elif (match := re.match(r"\s+0x\S+ \S+ \S+ ([A-Z]+)_([0-9.]+)$", line)) and library in SYSTEM - {"libz.so.1"}:
            kind, version = match.groups()
            newest[kind] = max(newest.get(kind, "0"), version, key=number)
    return newest


def main(files):
    newest, broken = {}, []
    own = {pathlib.Path(file).name for file in files}
    for file in files:
        dump = subprocess.run(["objdump", "-p", file], check=True, stdout=subprocess.PIPE, text=True).stdout
        for kind, version in asked_of_system(dump).items():
            newest[kind] = max(newest.get(kind, "0"), version, key=number)
        for library in set(re.findall(r"NEEDED\s+(\S+)", dump)) - SYSTEM - own:
            broken.append(f"{file} needs {library}")
        for path in re.findall(r"(?:RPATH|RUNPATH)\s+(\S*)", dump):
            if not path.startswith("$ORIGIN"):
                broken.append(f"{file} looks for libraries in {path}")
    print("asked for:", ", ".join(f"{kind} {version}" for kind, version in sorted(newest.items())))
    if set(newest) < {"GLIBC", "GLIBCXX", "CXXABI"}:
        broken.append(f"only {sorted(newest)} was read: has objdump another format?")
    for system, offered in OFFERED.items():
        for kind, version in newest.items():
            if kind not in offered or number(version) > number(offered[kind]):
                broken.append(f"{system} has {kind} {offered.get(kind)}, not {version}")
    if broken:
        raise SystemExit("symbols: " + "; ".join(broken))
    print("offered by:", ", ".join(OFFERED))


if __name__ == "__main__":
    main(sys.argv[1:])
