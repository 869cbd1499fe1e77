mkdir model
cp "$SOURCE/datasets/demo/natural/tokenizer.json" "$SOURCE/datasets/demo/natural/config.json" model
echo '{"id": "chat", "messages": [{"role": "user", "content": "Hi"}]}' >p.jsonl
echo '{"id": "raw", "text": "red"}' >>p.jsonl
echo '{"id": "alpaca", "instruction": "Hi", "output": "red"}' >>p.jsonl
kvcal prompts model --prompts p.jsonl || echo "exits $?"
# What is said to help does.
echo '{% for m in messages %}{{ m.content }} {% endfor %}' >model/chat_template.jinja
kvcal prompts model --prompts p.jsonl --json | sed 's/, *"input_ids".*//'
