# sh make_folds.sh KVCAL SOURCE OUT MADE [CASE...]: checkpoints with every way in which weights of attention are stored, as
# their publishers write them, in OUT/CASE/model, and folded by channel in OUT/CASE/folded. Those of make_models.py are in MADE.
set -eu
kvcal=$1 source=$2 out=$3 made=$4
shift 4
[ $# -gt 0 ] || set -- llama_256 qwen2_256 qwen3 olmo2_heads gemma2 gpt_oss falcon_h1 qwen3_next mla llama_fp8 \
  llama_compressed llama_awq qwen2_vl_heads demo_stressed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for case in "$@"; do
  folder=$source/tests/arch/golden/$case
  [ ! -e "$made/$case" ] || folder=$made/$case
  rm -rf "${out:?}/$case"
  mkdir -p "$out/$case"
  if [ "$case" = demo_stressed ]; then
    folder=$source/datasets/demo/stressed
    cp "$source/datasets/demo/prompts.jsonl" "$work/prompts.jsonl"
  else
    python3 -c 'import json, sys
for ids in json.load(open(sys.argv[1]))["sequences"]: print(json.dumps({"input_ids": ids}))' "$folder/golden.json" \
      >"$work/prompts.jsonl"
  fi
  python3 "$source/tests/loaders/published.py" "$folder" "$out/$case/model"
  [ ! -e "$folder/tokenizer.json" ] || cp "$folder"/tokenizer* "$out/$case/model"
  "$kvcal" calibrate "$out/$case/model" --prompts "$work/prompts.jsonl" --no-sanity -q --force --stats "$work/run.kvstats" \
    -o "$work/scales.json"
  "$kvcal" fold "$out/$case/model" --stats "$work/run.kvstats" --balance channel --force -o "$out/$case/folded" >/dev/null
done
