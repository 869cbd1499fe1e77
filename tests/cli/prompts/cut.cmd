cat >p.jsonl <<"EOF"
{"id": "chat", "messages": [{"role": "user", "content": "What is 4 * 1?"}]}
{"id": "answered", "messages": [{"role": "user", "content": "What is 4 * 1?"}, {"role": "assistant", "content": "4"}]}
{"id": "raw", "text": "red blue", "weight": 3}
{"id": "ids", "input_ids": [5, 6, 7]}
EOF
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl --json --max-length 3
