kvcal prompts "$SOURCE/datasets/demo/natural" --prompts nowhere.jsonl
# exits 2
