# What a terminal would obey is shown, not sent.
echo '{"id": "e\u001b[1m", "text": "\u001b[31mred"}' >p.jsonl
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl | head -n 2
