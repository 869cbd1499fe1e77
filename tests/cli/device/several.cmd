# Several GPUs give the bytes of one; what is wrong with a list is one line, and nothing is written.
export KVCAL_EMULATED_DEVICES=3
calibrate() {
  "$BUILD/tests/emulated/kvcal" calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl -q "$@"
}
for i in 1 2 3 4 5; do
  echo '{"id": "'$i'", "input_ids": [6, 7, 8, '$i']}'
done >prompts.jsonl
calibrate --device cuda -o one.json --stats one.kvstats
for list in cuda:all cuda:1,0; do
  calibrate --device $list -o several.json --stats several.kvstats --force && cmp one.json several.json && cmp one.kvstats several.kvstats && echo equal
done
KVCAL_EMULATED_DEVICES=1 calibrate --device cuda:all -o alone.json && cmp one.json alone.json && echo equal
calibrate --device cuda:all --evaluate e.json -o evaluated.json && grep -c '"isa": "cuda_sm_90"' e.json
refused() {
  calibrate -o refused.json --device "$@"
  echo $?
}
refused cuda:0,0
refused cuda:0,7
refused cuda:0,
refused cuda:0,x
refused cuda:all,0
refused cuda:0,1 --resume
KVCAL_EMULATED_DEVICE=mixed refused cuda:all
KVCAL_EMULATED_DEVICE=hidden refused cuda:all
KVCAL_EMULATED_DEVICE='with broken second' refused cuda:0,1 2>&1 | sed 's/launching.*threads and/.../'
"$BUILD/tests/emulated/kvcal" evaluate "$SOURCE/tests/arch/golden/qwen3" --scales one.json --prompts prompts.jsonl -o n.json --device cuda:0,1
"$BUILD/tests/emulated/kvcal" generate "$SOURCE/datasets/demo/natural" --prompt x --device cuda:all
ls -A
