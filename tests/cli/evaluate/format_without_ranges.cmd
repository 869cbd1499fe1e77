kvcal evaluate "$SOURCE/datasets/demo/natural" --formats int8 --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 1 -q
# exits 2
