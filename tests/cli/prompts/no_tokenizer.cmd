mkdir empty
kvcal prompts empty --prompts "$SOURCE/datasets/demo/prompts.jsonl"
