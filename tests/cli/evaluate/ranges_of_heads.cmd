set -- "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q
kvcal calibrate "$@" -o scales.json
kvcal evaluate "$@" --scales scales.json --formats int8_per_head
# exits 2
