printf '{"text":"hello world"}\n{"text": 5}\n{"input_ids":[1,2,3]}\nnonsense\n' >mixed.jsonl
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts mixed.jsonl --dry-run && exit 1
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts mixed.jsonl --skip-bad -o scales.json >/dev/null || exit 1
kvcal validate scales.json --model "$SOURCE/datasets/demo/natural" >/dev/null && ls
