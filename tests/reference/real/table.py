"""What an FP8 cache and other formats cost trained models, for docs/evidence.md.

    table.py KVCAL OUT FOLDER...

Half of the shipped prompts measure each model, HELD others evaluate it: scale 1.0, the default scales, those of absmax, other formats,
the floor, and each layer alone on SAMPLE of them. At most LENGTH ids of a prompt, so that three models take an hour on two cores. Prints
the table, and leaves in OUT for each model a summary, the scale file, the evaluation and the page that carries both.
"""
import json
import subprocess
import sys
from pathlib import Path
from random import Random

from rank import on_stream, spearman

PROMPTS = Path(__file__).resolve().parents[3] / "datasets" / "default.jsonl"
FORMATS = ("fp8_per_token_head,fp8_e4m3_affine,fp8_e5m2,int8_per_token_head,nvfp4,nvfp4_affine,nvfp4_rotated,"
           "int4_per_token_head")
HELD, SAMPLE, LENGTH = 20, 8, 128


def write(path, records):
    path.write_text("".join(json.dumps(x) + "\n" for x in records))
    return path


def is_chat_model(folder):
    return "chat_template" in json.loads((folder / "tokenizer_config.json").read_text())


def as_text(record):
    """A chat for a model that knows none."""
    messages = record.get("messages")
    return {"id": record["id"], "text": "\n\n".join(m["content"] for m in messages)} if messages else record


def measure(kvcal, out, folder, held, measured):
    at = lambda end: out / f"{folder.name}{end}"  # noqa: E731
    run = lambda *words: subprocess.run([kvcal, *map(str, words), "--quiet", "--force"], check=True)  # noqa: E731
    statistics = at(".kvstats")
    suited = (lambda x: x) if is_chat_model(folder) else as_text
    held, measured = (write(at(f".{name}.jsonl"), map(suited, x)) for name, x in (("held", held), ("measured", measured)))
    run("calibrate", folder, "--prompts", measured, "--max-length", LENGTH, "--stats", statistics, "--out", at(".json"))
    run("solve", statistics, "--policy", "absmax", "--out", at(".absmax.json"))
    run("evaluate", folder, "--prompts", held, "--scales", at(".json"), at(".absmax.json"),
        "--formats", FORMATS, "--stats", statistics, "--max-length", LENGTH, "--floor",
        "--per-layer", "--sample", SAMPLE, "--out", at(".evaluation.json"))
    for option, end in (("--markdown", ".md"), ("--evidence", ".html")):
        run("report", at(".json"), "--evaluation", at(".evaluation.json"), option, "--out", at(end))
    statistics.unlink()


def cell(evaluation, variant):
    kl = evaluation["conclusion"]["variants"][variant]["kl"]
    least, most = kl["interval"]
    return f"{kl['value']:.2g} ({least:.2g} to {most:.2g})"


def agreement(evaluation, variant):
    return f"{100 * evaluation['conclusion']['variants'][variant]['top1']['value']:.1f} %"


def departures(scales):
    sites = [site for layer in scales["layers"] for site in (layer["key"], layer["value"]) if site["scale"] != 1]
    return f"{len(sites)} of {2 * len(scales['layers'])}"


def layers_alone(evaluation):
    by_kl = sorted(evaluation["layers"], key=lambda layer: layer["kl"])
    worst = ", ".join(str(layer["index"]) for layer in reversed(by_kl[-3:]))
    return f"{by_kl[0]['kl']:.2g} to {by_kl[-1]['kl']:.2g}; most: {worst}"


def has_on_stream(layer):
    return "on_stream" in layer["key"]["assessment"]["at_scale"]


def ranked(evaluation, scales, figure):
    """Rank correlation of the KL of layers alone with a figure of the scale file, or with how early they come."""
    kl, layers = [layer["kl"] for layer in evaluation["layers"]], scales["layers"]
    if figure == "early":
        of_layers = [-layer["index"] for layer in layers]
    elif figure == "on_stream":
        of_layers = [on_stream(layer, ("key", "value")) for layer in layers if has_on_stream(layer)]
    else:
        of_layers = [max(layer[site]["assessment"]["at_scale"][figure] for site in ("key", "value")) for layer in layers]
    return f"{spearman(of_layers, kl):.2f}" if of_layers else ""


def table(out, names):
    """Rows of figures, a column a model."""
    read = lambda name, end: json.loads((out / f"{name}{end}").read_text())  # noqa: E731
    evaluations = [read(name, ".evaluation.json") for name in names]
    rows = [["KL, nats a token", *names], ["---"] * (1 + len(names))]
    rows += [[f"`{v}`", *(cell(e, v) for e in evaluations)] for v in evaluations[0]["conclusion"]["variants"]]
    rows += [[f"same top token, `{v}`", *(agreement(e, v) for e in evaluations)] for v in ("floor", "scale_1.0", "file_2", "nvfp4")]
    rows.append(["scales of `file` that are not 1.0", *(departures(read(name, ".json")) for name in names)])
    rows.append(["KL of a layer alone, `file`", *map(layers_alone, evaluations)])
    rows += [[f"rank of that: {figure}", *(ranked(e, read(name, ".json"), figure) for e, name in zip(evaluations, names))]
             for figure in ("severity", "on_stream", "early")]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def main(kvcal, out, *folders):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    records = [json.loads(line) for line in PROMPTS.read_text().splitlines()]
    Random(1).shuffle(records)
    for folder in folders:
        measure(kvcal, out, Path(folder), records[:HELD], records[HELD:HELD + len(records) // 2])
    print(table(out, [Path(folder).name for folder in folders]), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
