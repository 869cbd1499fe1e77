"""kvcal against a lean transformers loop, as whole processes in turns, on the same weights and token ids:

    python compare_peer.py KVCAL MODEL_FOLDER [--rounds 3] [--threads 2] [--batch 1]

MODEL_FOLDER comes from write_random_model. One pass, no warm-up, no sanity run, statistics of K, V and Q in full on our
side; abs-max of K and V on the other (peer_transformers.py, same Python). Both find the weights in the page cache: a
round that is not counted comes first. Prints every figure as median (least..most) and ends with one JSON object.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def timed(command: list[str]) -> tuple[dict, str]:
    before = os.times()
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    wall = time.perf_counter() - start
    after = os.times()
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stderr}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall": wall, "cpu": cpu}, done.stdout


def row(name: str, values: list[float], unit: str = "s") -> str:
    return f"{name:34} {statistics.median(values):8.2f} ({min(values):.2f}..{max(values):.2f}) {unit}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvcal")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batch", type=int, default=1, help="prompts at once, on the other side")
    args = parser.parse_args()

    prompts = os.path.join(args.model, "prompts.jsonl")
    out = tempfile.mkdtemp()
    ours = [args.kvcal, "calibrate", args.model, "--prompts", prompts, "--passes", "1", "--warmup-passes", "0",
            "--no-sanity", "--max-length", "512", "--threads", str(args.threads), "--quiet", "--force",
            "-o", os.path.join(out, "scales.json")]  # fmt: skip
    theirs = [sys.executable, os.path.join(HERE, "peer_transformers.py"), args.model, prompts,
              "--threads", str(args.threads), "--batch", str(args.batch)]  # fmt: skip

    a, b, parts = [], [], []
    for round_ in range(args.rounds + 1):
        first, _ = timed(ours)
        second, text = timed(theirs)
        if round_ == 0:
            continue
        a.append(first)
        b.append(second)
        parts.append(json.loads(text.splitlines()[-1]))

    ratios = [y["wall"] / x["wall"] for x, y in zip(a, b)]
    without_import = [(y["wall"] - p["import_seconds"]) / x["wall"] for x, y, p in zip(a, b, parts)]
    print(row("kvcal, whole process", [x["wall"] for x in a]))
    print(row("kvcal, processor time", [x["cpu"] for x in a]))
    print(row("loop, whole process", [x["wall"] for x in b]))
    print(row("loop, processor time", [x["cpu"] for x in b]))
    print(row("  of it importing", [p["import_seconds"] for p in parts]))
    print(row("  of it running", [p["run_seconds"] for p in parts]))
    print(row("loop / kvcal, pair by pair", ratios, "x"))
    print(row("the same without importing", without_import, "x"))
    print(json.dumps({"model": os.path.basename(args.model.rstrip("/")), "threads": args.threads, "batch": args.batch,
                      "processor": platform.processor() or platform.machine(), "kvcal": a, "loop": b,
                      "loop_parts": parts, "ratio": statistics.median(ratios)}))  # fmt: skip


if __name__ == "__main__":
    main()
