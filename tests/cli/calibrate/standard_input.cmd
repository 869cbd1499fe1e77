kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o a.json
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts - -q -o b.json <"$SOURCE/datasets/demo/prompts.jsonl"
cmp a.json b.json
