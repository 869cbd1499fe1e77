"""What kvcal says of sites, beside what is true of them: of cases drawn at random, or of the committed ones.

    differential.py KVCAL [--sites 300] [--seed 0] [--families] | --engineered
"""
import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from case_layer import build, make_layer
from checkpoint import FOLDER, write_checkpoint
from family_cases import family_case
from judge import grade, judge, rel, scale_near
from random_cases import random_case

GRADES = ("fine", "between", "ruined")
# What a verdict of scale files without assessments says of both questions.
BY_VERDICT = {"neutral": ("any", "fine"), "needed": ("needed", "fine"),
              "inadequate": (None, "keep16")}
WORDS = ("fine", "keep16")
NEAR = 1.1  # how near a limit of `scale` an error has to be for the second count


def flags(run):
    out = ["--dtype", run["dtype"]]
    for key in ("policy", "percentile", "granularity", "headroom"):
        out += [f"--{key}", str(run[key])] if key in run else []
    return out


def ask(program, folder, run):
    """-> the layer in the scale file, or the message of a refusal"""
    command = [program, "calibrate", folder, "--prompts", folder / "prompts.jsonl", "--max-length", "0", "--passes", "1",
               "--warmup-passes", "0", "--no-sanity", "--quiet", "--force", "--out", folder / "scales.json", *flags(run)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return json.loads((folder / "scales.json").read_text())["layers"][0]


def said_of(layer, site):
    """-> (scale, fp8, how it is written)"""
    if isinstance(layer, str):
        return None, "keep16", "refused"
    found = layer[site]
    if "assessment" in found:
        a = found["assessment"]
        return a["scale"], a["fp8"], f"{a['scale']}, {a['fp8']}"
    return *BY_VERDICT[found["verdict"]], found["verdict"]


def scales_in(layer):
    """By site, of heads where they have their own; None of a refusal."""
    if isinstance(layer, str):
        return None
    sites = {name: site for name, site in layer.items() if isinstance(site, dict) and "absmax" in site}
    return {name: site.get("scale_per_head", site["scale"]) for name, site in sites.items()}


def answers(program, case, tables, truth_of):
    """Yields case, run, site, judgement and what was said."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_checkpoint(folder, case, tables)
        layers = [ask(program, folder, run) for run in case["runs"]]
        for run, layer, sites in zip(case["runs"], layers, truth_of(layers)):
            if isinstance(layer, str):
                print(f"{case['name']}: {layer}", file=sys.stderr)
            for site, judged in sites.items():
                check_scale(case, site, judged, layer)
                yield case, run, site, judged, said_of(layer, site)


def check_scale(case, site, judged, layer):
    if isinstance(layer, str):
        return
    found = scales_in(layer)[site]
    if not np.allclose(found, judged["scale"], rtol=2 ** -7 if case["class"] in ("rope", "latent") else 1e-6, atol=0):
        print(f"{case['name']}, {site}: scale {found}, expected {judged['scale']}", file=sys.stderr)


def right(judged, said):
    scale, fp8, _ = said
    accepted = judged["accepted"]
    return {"fp8": fp8 in accepted["fp8"], "scale": scale is None or scale in accepted["scale"]}


def right_but_for_a_border(judged, said):
    """As right(), where the answer on the scale may be that of errors which differ by NEAR."""
    return right(judged, said)["fp8"] and (said[0] is None or said[0] in scale_near(judged["at_scale"], judged["at_one"], NEAR))


def excess(judged, said):
    """'' where fp8's answer is accepted, else whether too little or too much was said."""
    if right(judged, said)["fp8"]:
        return ""
    return "too little" if WORDS.index(said[1]) < min(map(WORDS.index, judged["accepted"]["fp8"])) else "too much"


def forbidden(judged, said):
    """Answers that are never accepted: safe where the layer is ruined, any where only the scale saves it."""
    at_scale, at_one = grade(judged["at_scale"]), grade(judged["at_one"])
    return (said[1] == "fine" and at_scale == 2) or (said[0] == "any" and at_one == 2 and at_scale == 0)


def number(x):
    return f"{x:.2g}" if x >= 1e-5 else "0"


def table_row(case, run, site, judged, said):
    short = {"fp8_e4m3": "", "fp8_e4m3fnuz": "fnuz ", "int8": "int8 "}[run["dtype"]] + " ".join(
        str(run[k]) for k in ("policy", "percentile", "granularity") if k in run)
    errors = [f"{number(rel(judged[x]))} {number(judged[x]['kl'])}" for x in ("at_scale", "at_one")]
    accepted = [" or ".join(judged["accepted"][q]) for q in ("scale", "fp8")]
    ok = right(judged, said)
    mark = "" if all(ok.values()) else "never" if forbidden(judged, said) else excess(judged, said) or "scale"
    cells = [case["name"], short.strip(), site, *errors, ", ".join(accepted), said[2], mark]
    return "| " + " | ".join(cells) + " |"


HEADER = ("| case | run | site | rel, kl at the scale | at 1.0 | accepted | says | wrong |\n"
          "|---|---|---|---|---|---|---|---|")


def summary(rows):
    n = len(rows)
    judged_and_said = [(judged, said) for _, _, _, judged, said in rows]
    both = sum(all(right(j, s).values()) for j, s in judged_and_said)
    near = sum(right_but_for_a_border(j, s) for j, s in judged_and_said)
    kinds = Counter(excess(j, s) for j, s in judged_and_said)
    wrong_scale = sum(not right(j, s)["scale"] for j, s in judged_and_said)
    never = sum(forbidden(j, s) for j, s in judged_and_said)
    lines = [f"{n} sites, {both} agree ({100 * both / n:.1f} %), {near} but for the border of a class of scales; FP8: {kinds['too little']} too little, "
             f"{kinds['too much']} too much; scale: {wrong_scale} wrong; {never} that must never be", "",
             "truth, said   " + "".join(f"{w:>8}" for w in WORDS)]
    counts = Counter((GRADES[grade(j["at_scale"])], s[1]) for j, s in judged_and_said)
    lines += [f"{g:<14}" + "".join(f"{counts[g, w]:>8}" for w in WORDS) for g in GRADES]
    return "\n".join(lines), never


def committed():
    files = ("cases.jsonl", "truth.jsonl")
    cases, truth = ([json.loads(line) for line in (FOLDER / f).read_text().splitlines()] for f in files)
    for case, t in zip(cases, truth):
        runs = [{"policy": "absmax", **run} for run in case["runs"]]
        yield {**case, "runs": runs}, build(case), lambda layers, known=t["runs"]: known


def judged_at(case, made):
    """Truth of scales: where no policy is named, of those in the file, whichever the default makes."""
    def truth_of(layers):
        in_file = {id(run): scales_in(layer) for run, layer in zip(case["runs"], layers)}
        with np.errstate(under="ignore"):
            return judge(case, made, lambda run: None if "policy" in run else in_file[id(run)])
    return truth_of


def drawn(sites, seed, draw):
    index = 0
    while sites > 0:
        case = draw(seed, index)
        tables = build(case)
        yield case, tables, judged_at(case, make_layer(case, tables))
        sites -= len(case["sites"])
        index += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--sites", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engineered", action="store_true", help="the committed cases instead")
    parser.add_argument("--families", action="store_true", help="layers that are built to mislead a judge")
    parser.add_argument("--all", action="store_true", help="print every site, not only those with a wrong answer")
    options = parser.parse_args()
    draw = family_case if options.families else random_case
    source = committed() if options.engineered else drawn(options.sites, options.seed, draw)
    rows = []
    print(HEADER)
    for case, tables, truth in source:
        for row in answers(options.program.resolve(), case, tables, truth):
            rows.append(row)
            if options.all or not all(right(*row[3:]).values()):
                print(table_row(*row), flush=True)
    text, never = summary(rows)
    print("\n" + text)
    sys.exit(1 if never else 0)


if __name__ == "__main__":
    main()
