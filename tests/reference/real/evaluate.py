"""What `kvcal evaluate` says of the model, against what measure.py found: each layer alone, and all of them, at equal scales.

    evaluate.py KVCAL FOLDER RESULTS.json kv-cache-scales.json

kvcal runs in f32, on the same ids, with a scale file that holds measure.py's scales. Fails where they disagree.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from text import chats

# Roundings near an edge fall to either side in sums of another order; a layer's KL moves by a few percent.
LAYER, MEAN_OF_LAYERS, WHOLE, LOSS, TOP1 = .25, .05, .25, .006, .01


def evaluated(kvcal, folder, ids, scales, *options):
    with tempfile.TemporaryDirectory() as scratch:
        prompts, out = Path(scratch, "ids.jsonl"), Path(scratch, "evaluation.json")
        prompts.write_text("".join(json.dumps({"id": f"{i:03}", "input_ids": x}) + "\n" for i, x in enumerate(ids)))
        subprocess.run([kvcal, "evaluate", folder, "--prompts", prompts, "--scales", scales, "--precision", "f32",
                        "--max-length", "0", "--quiet", "--out", out, *options], check=True)
        return json.loads(out.read_text())


def with_scales(template, layers, path):
    """measure.py's scales of the layers, in the form of a scale file."""
    file = json.loads(Path(template).read_text())
    for layer, row in zip(file["layers"], layers, strict=True):
        layer["key"]["scale"], layer["value"]["scale"] = row["scales"]
    path.write_text(json.dumps(file))
    return path


def main():
    kvcal, folder, results, template = sys.argv[1], Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()), sys.argv[4]
    wrong = []

    def compare(what, ours, theirs, most):
        print(f"{what}: {ours:.4g}, measure.py {theirs:.4g}")
        if not abs(ours - theirs) <= most:
            wrong.append(what)

    with tempfile.TemporaryDirectory() as scratch:
        scales = with_scales(template, results["layers"], Path(scratch, "scales.json"))
        few = evaluated(kvcal, folder, chats(folder, results["layer_tokens"], 400), scales, "--per-layer")
        ours, theirs = [layer["kl"] for layer in few["layers"]], [row["kv"] for row in results["layers"]]
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            compare(f"KL of layer {i}", a, b, LAYER * b)
        compare("KL of the layers, mean", sum(ours) / 30, sum(theirs) / 30, MEAN_OF_LAYERS * sum(theirs) / 30)
        all_layers = evaluated(kvcal, folder, chats(folder, results["tokens"], 600), scales)
    at_one, theirs = all_layers["variants"][1], results["all_layers"]["kv_at_one"]
    compare("loss unrounded", at_one["nll_reference"], results["loss"], .001)
    compare("KL at 1.0", at_one["kl"]["mean"], theirs["kl"], WHOLE * theirs["kl"])
    compare("loss at 1.0, more than unrounded", at_one["nll"] - at_one["nll_reference"], theirs["loss"], LOSS)
    compare("equal top tokens at 1.0", at_one["top1"], theirs["top1"], TOP1)
    if wrong:
        sys.exit("they disagree: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
