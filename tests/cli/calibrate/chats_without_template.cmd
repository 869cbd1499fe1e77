mkdir model
cp "$SOURCE/datasets/demo/natural/tokenizer.json" "$SOURCE/datasets/demo/natural/config.json" \
  "$SOURCE/datasets/demo/natural/model.safetensors" model
echo '{"id": "chat", "messages": [{"role": "user", "content": "Hi"}]}' >p.jsonl
kvcal calibrate model --prompts p.jsonl -q
# exits 2
