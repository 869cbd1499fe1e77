"""Where the time of a run went, of what timeline.cpp left: timeline.py FILE

From the first kernel to the last: how long some kernel ran, how long none did (gaps, longest first, between which kernels), what
was copied meanwhile, and each kernel's share.
"""

import collections
import re
import sys


def read(path):
    for line in open(path):
        kind, begin, end, size, stream, name = line.rstrip("\n").split(" ", 5)
        yield kind, int(begin) * 1e-6, int(end) * 1e-6, int(size), int(stream), name


def short(name):
    """A mangled name without its namespaces: those of a file have its hash in them."""
    inner = re.search(r"\d+([a-z_]+_kernel)(\w*)", name)
    return inner[1] + " " + inner[2][:40] if inner else name[:60]


def main():
    records = sorted(read(sys.argv[1]), key=lambda r: r[1])
    kernels = [r for r in records if r[0] == "kernel"]
    first, last = kernels[0][1], max(k[2] for k in kernels)
    copies = [r for r in records if r[0] != "kernel" and r[2] > first and r[1] < last]
    gaps, busy, until, before = [], 0.0, first, kernels[0]
    for k in kernels:
        if k[1] > until:
            gaps.append((k[1] - until, before[5], k[5], until - first))
        busy += max(0.0, k[2] - max(until, k[1]))
        if k[2] > until:
            until, before = k[2], k
    print(f"{last - first:.1f} ms, of which some kernel ran {busy:.1f} ms; {len(kernels)} kernels, {len(gaps)} gaps, {sum(g[0] for g in gaps):.1f} ms")
    for least, most in ((0, 0.005), (0.005, 0.02), (0.02, 0.1), (0.1, 1), (1, 10), (10, 1e9)):
        some = [g[0] for g in gaps if least <= g[0] < most]
        print(f"  gaps of {least} to {most} ms: {len(some)}, {sum(some):.2f} ms")
    for gap, a, b, at in sorted(gaps, reverse=True)[:20]:
        print(f"  {gap:8.3f} ms at {at:9.2f}: {short(a)} -> {short(b)}")
    kinds = {"copy1": "host to device", "copy2": "device to host", "copy8": "on the device"}
    for kind in sorted({c[0] for c in copies}):
        of_kind = [c for c in copies if c[0] == kind]
        size, ms = sum(c[3] for c in of_kind), sum(c[2] - c[1] for c in of_kind)
        print(f"{kinds.get(kind, kind)}: {len(of_kind)} copies, {size * 1e-9:.2f} GB in {ms:.1f} ms")
    times = collections.defaultdict(list)
    for k in kernels:
        times[k[5]].append(k[2] - k[1])
    print("    ms  calls    most  kernel")
    for name, t in sorted(times.items(), key=lambda x: -sum(x[1])):
        print(f"{sum(t):8.2f} {len(t):5d} {max(t):8.3f}  {short(name)}")


if __name__ == "__main__":
    main()
