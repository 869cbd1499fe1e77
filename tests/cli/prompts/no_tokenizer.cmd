mkdir empty
kvcal prompts empty --prompts "$SOURCE/datasets/demo/prompts.jsonl"
# exits 2
