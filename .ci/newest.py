#!/usr/bin/env python3
"""newest.py [--upgrade | ARCH]: whether the Debian packages that wheel and tarball are made of are the newest that the archive
offers, since who installs a wheel gets updates of its libraries from nobody else. --upgrade installs what is newer, where it
may. ARCH is for libraries of another processor that dpkg is told of by DPKG_ADMINDIR.

Asks the archive for lists of its own, which needs no root. Where that fails it is not known, which is an error, unless
KVCAL_DIST_UNCHECKED is set: then it says so and goes on. What is known to be older is an error in any case.
"""

import os
import pathlib
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from sbom import HEADERS, LIBRARIES

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "build" / "apt"
OWN_LISTS = ["-o", f"Dir::State::lists={FOLDER}/lists", "-o", f"Dir::Cache={FOLDER}/cache"]


def output(*command):
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def installed(arch):
    """{package: version}. Of another processor there are not all: some libraries are left out there, headers are this one's."""
    packages = [*LIBRARIES] if arch else [*LIBRARIES, *HEADERS]
    lines = output("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package} ${Version}\n", *packages).splitlines()
    found = dict(line.split()[1:] for line in lines if line.startswith("installed "))
    missing = [] if arch and found else [package for package in packages if package not in found]
    if missing:
        raise SystemExit(f"newest: not installed: {' '.join(missing)}; run: sh .ci/packages.sh build")
    return found


def lists_are_there():
    for folder in ("lists/partial", "cache/archives/partial"):
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    # Without the mode an archive that does not answer is a warning.
    command = ["apt-get", *OWN_LISTS, "-qq", "-o", "APT::Update::Error-Mode=any", "update"]
    return subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0


def offered(package):
    """The version that apt would install, None where no archive has the package."""
    said = [line.split() for line in output("apt-cache", *OWN_LISTS, "policy", package).splitlines()]
    # "500 http://deb.debian.org/debian bookworm/main amd64 Packages"; what is installed is listed with dpkg's status alone.
    from_archive = any(len(words) > 3 and words[0].isdigit() for words in said)
    candidates = [words[1] for words in said if words[:1] == ["Candidate:"]]
    return candidates[0] if candidates and from_archive else None


def older(packages, arch):
    """[(package, installed, offered)] of those of which the archive has a newer one."""
    names = {package: f"{package}:{arch}" if arch else package for package in packages}
    known = [(names[package], version, offered(names[package])) for package, version in packages.items()]
    unknown = [name for name, _, candidate in known if candidate is None]
    if unknown:
        unchecked(f"apt knows no archive that has {' '.join(unknown)}")
    is_older = lambda here, there: subprocess.run(["dpkg", "--compare-versions", here, "lt", there]).returncode == 0
    return [(name, here, there) for name, here, there in known if there and is_older(here, there)]


def unchecked(reason):
    text = f"newest: not known whether wheel and tarball get the newest libraries: {reason}"
    if not os.environ.get("KVCAL_DIST_UNCHECKED"):
        raise SystemExit(text + "; KVCAL_DIST_UNCHECKED=1 builds all the same")
    print(text, file=sys.stderr)


def upgrade(names):
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if as_root and not shutil.which("sudo"):
        return
    print("Upgrading Debian packages:", *names, flush=True)
    apt = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    subprocess.run([*apt, "update"], stdout=subprocess.DEVNULL)
    subprocess.run([*apt, "install", "-y", "--only-upgrade", "--no-install-recommends", *names], stdout=subprocess.DEVNULL)


def main(argument=""):
    arch = "" if argument == "--upgrade" else argument
    if not lists_are_there():
        unchecked("'apt-get update' fails")
    found = older(installed(arch), arch)
    if found and argument == "--upgrade":
        upgrade([name for name, *_ in found])
        found = older(installed(arch), arch)
    if found:
        way_out = "apt-get update && apt-get install --only-upgrade " + " ".join(name for name, *_ in found)
        if arch:
            way_out = "rm -r build/arm64-packages"
        pairs = ", ".join(f"{name} is {here}, the archive offers {there}" for name, here, there in found)
        raise SystemExit(f"newest: wheel and tarball would get old libraries: {pairs}; run: {way_out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
