# sh make_exports.sh KVCAL SOURCE OUT [CASE...]: calibrates every tiny golden checkpoint (or those named) and exports it
# for every target that applies:
#   OUT/.inputs/CASE/model/         the checkpoint alone, with the keys that its publisher's config has
#   OUT/.inputs/CASE/scales.json    and heads.json, one scale per head
#   OUT/CASE/TARGET/                the export: vllm, vllm-head, sglang
#   OUT/CASE/TARGET.expect.json     what the server's loader must give, as its checker reads it
#   OUT/CASE/TARGET.refused         instead of both: why the target does not apply
#   OUT/CASE/sglang-json.json, json.json
# Fails when a golden that can be calibrated is exported nowhere.
set -eu
kvcal=$1 source=$2 out=$3
shift 3
golden=$source/tests/arch/golden
[ $# -gt 0 ] || set -- $(ls "$golden")

# make_inputs CASE: the checkpoint without the golden's own files, and its sequences as prompts.
make_inputs() {
  python3 - "$golden/$1" "$inputs" <<'PY'
import json, os, shutil, sys
golden, out = sys.argv[1:]
os.makedirs(out + "/model", exist_ok=True)
shutil.copy(golden + "/model.safetensors", out + "/model")
config = json.load(open(golden + "/config.json"))
# Keys of publishers' configs that the reference framework no longer writes and SGLang reads.
if config["model_type"] in ("qwen3_5_text", "qwen3_next"):
    config.setdefault("full_attention_interval", 4)
with open(out + "/model/config.json", "w") as file:
    json.dump(config, file, indent=2)
with open(out + "/prompts.jsonl", "w") as file:
    for ids in json.load(open(golden + "/golden.json"))["sequences"]:
        file.write(json.dumps({"input_ids": ids}) + "\n")
PY
}

# expect REPORT FILE: from what export --json says.
expect() {
  python3 - "$1" "$2" <<'PY'
import json, sys
layers = {}
for scale in json.load(open(sys.argv[1]))["scales"]:
    layers.setdefault(str(scale["layer"]), {})[scale["site"][0]] = scale["values"]
json.dump({"layers": layers}, open(sys.argv[2], "w"), indent=1)
PY
}

exported=0
# export_to NAME SCALES TARGET: one target of the case, from $inputs into $place.
export_to() {
  rm -rf "$place/$1" "$place/$1.refused" "$place/$1.expect.json"
  if "$kvcal" export "$inputs/$2" --model "$inputs/model" --to "$3" -o "$place/$1" --allow-inadequate --json \
    >"$inputs/report.json" 2>"$place/$1.refused"; then
    rm "$place/$1.refused"
    exported=$((exported + 1))
    case $1 in *.json) ;; *) expect "$inputs/report.json" "$place/$1.expect.json" ;; esac
  fi
}

for case in "$@"; do
  [ -e "$golden/$case/model.safetensors" ] || continue
  place=$out/$case inputs=$out/.inputs/$case
  mkdir -p "$place"
  make_inputs "$case"
  "$kvcal" calibrate "$inputs/model" --prompts "$inputs/prompts.jsonl" --no-sanity -q --force \
    -o "$inputs/scales.json" --stats "$inputs/run.kvstats"
  "$kvcal" solve "$inputs/run.kvstats" --granularity head -q --force -o "$inputs/heads.json"
  exported=0
  export_to vllm scales.json vllm
  export_to vllm-head heads.json vllm
  export_to sglang scales.json sglang
  export_to sglang-json.json scales.json sglang-json
  export_to json.json scales.json json
  [ $exported -gt 0 ] || { echo "make_exports: $case was exported nowhere" >&2; exit 1; }
  echo "$case: $exported exports"
done
