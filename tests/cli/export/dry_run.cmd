kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
kvcal export s.json --model "$SOURCE/datasets/demo/natural" --dry-run | sed -n 1p
ls
