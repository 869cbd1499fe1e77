set -- --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q
kvcal calibrate "$SOURCE/datasets/demo/stressed" "$@" -o scales.json
kvcal evaluate "$SOURCE/tests/arch/golden/qwen3" --scales scales.json
# exits 2
