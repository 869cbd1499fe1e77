# sh make_exports.sh KVCAL SOURCE OUT MADE [CASE...]: calibrates every tiny golden checkpoint, those of make_models.py in
# the folder MADE and the demo models (or those named) and exports each for every target that applies:
#   OUT/.inputs/CASE/model/         the checkpoint alone, with the keys that its publisher's config has
#   OUT/.inputs/CASE/scales.json    and heads.json, one scale per head
#   OUT/CASE/TARGET/                the export: vllm, vllm-head, sglang; modelopt and quark into such checkpoints
#   OUT/CASE/TARGET.expect.json     what the server's loader must give, as its checker reads it
#   OUT/CASE/TARGET.refused         instead of both: why the target does not apply
#   OUT/CASE/sglang-json.json, json.json
# Fails when a golden that can be calibrated is exported nowhere.
set -eu
kvcal=$1 source=$2 out=$3 made=$4
shift 4
golden=$source/tests/arch/golden
[ $# -gt 0 ] || set -- $(ls "$golden") $(ls "$made") demo_natural demo_stressed

# make_inputs FOLDER: the checkpoint as its publisher would have written it, and the golden's sequences, or the demo's, as
# prompts.
make_inputs() {
  python3 "$source/tests/loaders/published.py" "$1" "$inputs/model"
  if [ ! -e "$1/golden.json" ]; then
    cp "$1"/tokenizer* "$inputs/model"
    cp "$source/datasets/demo/prompts.jsonl" "$inputs/prompts.jsonl"
    return
  fi
  python3 - "$1/golden.json" "$inputs/prompts.jsonl" <<'PY'
import json, sys
with open(sys.argv[2], "w") as file:
    for ids in json.load(open(sys.argv[1]))["sequences"]:
        file.write(json.dumps({"input_ids": ids}) + "\n")
PY
}

exported=0
# export_to NAME SCALES TARGET: one target of the case, from $inputs into $place.
export_to() {
  rm -rf "$place/$1" "$place/$1.refused" "$place/$1.expect.json"
  if "$kvcal" export "$inputs/$2" --model "$inputs/model" --to "$3" -o "$place/$1" --allow-keep16 --json \
    >"$inputs/report.json" 2>"$place/$1.refused"; then
    rm "$place/$1.refused"
    exported=$((exported + 1))
    case $1 in *.json) ;; *) python3 "$source/tests/loaders/expect.py" "$inputs/report.json" "$inputs/$2" "$place/$1.expect.json" ;; esac
  fi
}

for case in "$@"; do
  folder=$golden/$case place=$out/$case inputs=$out/.inputs/$case
  [ ! -e "$made/$case" ] || folder=$made/$case
  case $case in demo_*) folder=$source/datasets/demo/${case#demo_} ;; esac
  [ -e "$folder/model.safetensors" ] || continue
  mkdir -p "$place"
  make_inputs "$folder"
  if grep -q '"quant_method": "quark"' "$folder/config.json"; then
    # kvcal reads no weights of Quark: the scales are those of the plain weights, made valid for this checkpoint too.
    plain=$out/.inputs/llama_256
    for file in scales heads; do
      "$kvcal" export "$plain/$file.json" --model "$plain/model" --to scales --also-for "$inputs/model" --force \
        -o "$inputs/$file.json" >/dev/null
    done
  else
    case $case in *_mtp) mtp=--mtp ;; *) mtp= ;; esac
    "$kvcal" calibrate "$inputs/model" --prompts "$inputs/prompts.jsonl" --no-sanity -q --force $mtp \
      -o "$inputs/scales.json" --stats "$inputs/run.kvstats"
    "$kvcal" solve "$inputs/run.kvstats" --granularity head -q --force -o "$inputs/heads.json"
  fi
  exported=0
  export_to vllm scales.json vllm
  export_to vllm-head heads.json vllm
  export_to sglang scales.json sglang
  export_to sglang-json.json scales.json sglang-json
  export_to json.json scales.json json
  for method in modelopt quark; do
    ! grep -q "\"quant_method\": \"$method\"" "$folder/config.json" || export_to $method scales.json $method
  done
  [ $exported -gt 0 ] || { echo "make_exports: $case was exported nowhere" >&2; exit 1; }
  echo "$case: $exported exports"
done
