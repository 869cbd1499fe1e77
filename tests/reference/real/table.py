"""What an FP8 cache and other formats cost trained models, as docs/evidence.md has it.

    table.py KVCAL OUT FOLDER...

Half of the shipped prompts measure each model, forty others evaluate it: scale 1.0, the default scales, those of absmax, other
formats, each layer alone, and the floor. Writes OUT/NAME.md, .json (the scale file), .evaluation.json and the page that carries both.
"""
import json
import subprocess
import sys
from pathlib import Path
from random import Random

PROMPTS = Path(__file__).resolve().parents[3] / "datasets" / "default.jsonl"
FORMATS = "fp8_e5m2,int8_per_token_head,nvfp4,int4_per_token_head"
HELD = 40


def write(path, records):
    path.write_text("".join(json.dumps(x) + "\n" for x in records))
    return path


def measure(kvcal, out, folder):
    name = Path(folder).name
    at = lambda end: out / f"{name}{end}"  # noqa: E731
    run = lambda *words: subprocess.run([kvcal, *words, "--quiet", "--force"], check=True)  # noqa: E731
    statistics = at(".kvstats")
    run("calibrate", folder, "--prompts", out / "measured.jsonl", "--stats", statistics, "--out", at(".json"))
    run("solve", statistics, "--policy", "absmax", "--out", at(".absmax.json"))
    run("evaluate", folder, "--prompts", out / "held.jsonl", "--scales", at(".json"), at(".absmax.json"),
        "--formats", FORMATS, "--stats", statistics, "--floor", "--per-layer", "--out", at(".evaluation.json"))
    for option, end in (("--markdown", ".md"), ("--evidence", ".html")):
        run("report", at(".json"), "--evaluation", at(".evaluation.json"), option, "--out", at(end))
    statistics.unlink()


def main(kvcal, out, *folders):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    records = [json.loads(line) for line in PROMPTS.read_text().splitlines()]
    Random(1).shuffle(records)
    write(out / "held.jsonl", records[:HELD])
    write(out / "measured.jsonl", records[HELD:HELD + len(records) // 2])
    for folder in folders:
        measure(kvcal, out, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
