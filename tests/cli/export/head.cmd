# Scales per head: the shapes and the strategy; the demo model has 2 KV heads and 4 query heads.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json --granularity head
kvcal export s.json --model "$SOURCE/datasets/demo/natural" --granularity head -o out >text
grep -c 'FlashAttention 3' text
grep -o '"strategy": "[a-z_]*"' out/config.json
head -c 2000 out/model-kv-scales.safetensors | grep -a -o '"shape":\[[0-9,]*\]' | sort | uniq -c | sed 's/^ *//'
kvcal export s.json --model "$SOURCE/datasets/demo/natural" --granularity tensor -o other || echo exit $?
kvcal export s.json --model "$SOURCE/datasets/demo/natural" --to sglang -o other || echo exit $?
