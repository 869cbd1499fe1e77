echo '{"id": "raw", "text": "red blue"}' >p.jsonl
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl
