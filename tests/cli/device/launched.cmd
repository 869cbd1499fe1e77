# Processes that a launcher starts together take a GPU each, in turns, where nobody says which; the bytes stay.
export KVCAL_EMULATED_DEVICES=2
calibrate() {
  "$BUILD/tests/emulated/kvcal" calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl -v "$@" >/dev/null 2>log
  grep computes log || echo 'no word of a device'
}
for i in 1 2 3 4 5; do
  echo '{"id": "'$i'", "input_ids": [6, 7, 8, '$i']}'
done >prompts.jsonl
calibrate --device cuda -o one.json --stats one.kvstats
for rank in 0 1 2; do
  RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank calibrate --device auto --shard auto --stats part.kvstats
done
"$BUILD/tests/emulated/kvcal" merge part.*-of-3.kvstats -o merged.kvstats -q && cmp one.kvstats merged.kvstats && echo equal
RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 calibrate --device cuda:0 --shard auto --stats named.kvstats
RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 KVCAL_EMULATED_DEVICES=1 calibrate --device auto --shard auto --stats alone.kvstats
RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 KVCAL_EMULATED_DEVICE=hidden calibrate --device auto --shard auto --stats hidden.kvstats
