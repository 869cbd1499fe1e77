"""kvcal.torch against kvcal on prompts with pictures, in f32: the same tiny models, one with pixels and the reference's own
tower, one with the rows that came out of it (tests/arch/embeddings).

    compare_pictures.py [CASE...]          with the environment of tests/reference/requirements.txt: make test-torch

Compared as by compare_goldens.py, and the maxima of text and of image tokens besides.
"""

import json
import sys
import tempfile
from pathlib import Path

import package  # noqa: F401  kvcal, before its modules
import kvcal.torch
from kvcal.sequences import IMAGE as OF_IMAGES
from kvcal.sequences import TEXT
from compare_goldens import be_quiet, codes_apart, compare, of_the_program, show
from statistics_file import StatisticsFile, sites_of

from make_embedding_golden import FOLDER, GOLDEN, inputs_of, model_of
from pictures import IMAGE, PICTURED


def checkpoint_of(p, folder):
    """Of the program: the wrapper's config around the weights of the text class, or the case as it is."""
    model = GOLDEN / p.case
    if not (FOLDER / p.name / "config.json").exists():
        return model
    folder.mkdir()
    (folder / "config.json").symlink_to(FOLDER / p.name / "config.json")
    (folder / "model.safetensors").symlink_to(model / "model.safetensors")
    return folder


def of_transformers(p, seed, folder, out):
    model = model_of(p, folder, "f32", seed)
    inputs = inputs_of(p, model, seed)
    with kvcal.torch.observe(model, ["picture"]) as stats:
        stats.feed.kind = TEXT
        model(**inputs)
    stats.save(out, checkpoint=GOLDEN / p.case, replace=True)
    return StatisticsFile(out), int((inputs["input_ids"] == IMAGE).sum())


def kind_faults(a, b, n_images):
    for name in ("kind_absmax", "kind_tokens"):
        if name not in a or name not in b:
            yield f"no {name}"
            return
    if codes_apart(a["kind_absmax"].ravel(), b["kind_absmax"].ravel()) > 1:
        yield "maxima of text or image tokens"
    found = int(b["kind_tokens"][OF_IMAGES])  # queries of several readers of a cache are counted together
    if (a["kind_tokens"] != b["kind_tokens"]).any() or found == 0 or found % n_images:
        yield f"tokens by kind: {a['kind_tokens']} and {b['kind_tokens']}, {n_images} of images"


def run(p, scratch):
    seed = json.loads((FOLDER / p.name / "golden.json").read_text())["seed"]
    first = of_the_program(checkpoint_of(p, scratch / "model"), FOLDER / p.name / "prompts.jsonl", scratch / "program.kvstats")
    second, n_images = of_transformers(p, seed, scratch / "text", scratch / "torch.kvstats")
    n, moved, faults = compare(first, second, bool(p.wrapper))
    for cache, layout in enumerate(first.metadata["caches"]):
        for site in sites_of(layout):
            faults += [f"layer {layout['layer']}, {site}: {f}"
                       for f in kind_faults(first.site(cache, site), second.site(cache, site), n_images)]
    return n, moved, faults


def main(names):
    be_quiet()
    different = 0
    for p in PICTURED:
        if names and p.name not in names:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            n, moved, faults = run(p, Path(scratch))
        different += bool(faults)
        show(p.name, n, moved, faults)
    return different > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
