mkdir empty
echo '{"input_ids": [1, 2]}' >p.jsonl
kvcal prompts empty --prompts p.jsonl --json
