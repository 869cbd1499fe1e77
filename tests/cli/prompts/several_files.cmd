cat >p.jsonl <<"EOF"
{"id": "chat", "messages": [{"role": "user", "content": "What is 4 * 1?"}]}
{"id": "answered", "messages": [{"role": "user", "content": "What is 4 * 1?"}, {"role": "assistant", "content": "4"}]}
{"id": "raw", "text": "red blue", "weight": 3}
{"id": "ids", "input_ids": [5, 6, 7]}
EOF
# --prompts takes as many values as there are; the folder among them is MODEL.
kvcal prompts --prompts p.jsonl p.jsonl "$SOURCE/datasets/demo/natural" --json >out.jsonl; wc -l <out.jsonl
