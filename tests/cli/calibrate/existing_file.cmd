echo mine >kv-cache-scales.json
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 1
cat kv-cache-scales.json
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 1 -q --force
head -c 1 kv-cache-scales.json
