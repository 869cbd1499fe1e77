kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --prompts y.jsonl
# exits 2
