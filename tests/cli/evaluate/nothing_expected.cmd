kvcal evaluate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q --generate --min-correct 0.5
# exits 2
