echo '{"texts": "red"}' >p.jsonl
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl
# exits 2
