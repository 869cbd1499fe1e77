kvcal generate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 2 --json --top 0
