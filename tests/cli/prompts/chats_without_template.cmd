mkdir model
cp "$SOURCE/datasets/demo/natural/tokenizer.json" "$SOURCE/datasets/demo/natural/config.json" model
echo '{"id": "chat", "messages": [{"role": "user", "content": "Hi"}]}' >p.jsonl
echo '{"id": "raw", "text": "red"}' >>p.jsonl
kvcal prompts model --prompts p.jsonl
