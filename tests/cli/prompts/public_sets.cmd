# Shapes of records of public sets and logs: each of these chats is the same one.
cat >p.jsonl <<"END"
{"prompt": "red", "prompt_id": "f0e37e9f7800261167ce91143f98f511f768847236f133f2d0aed60b444ebe57", "messages": [{"content": "red", "role": "user"}, {"content": "blue", "role": "assistant"}]}
{"id": 7, "conversations": [{"role": "human", "value": "red"}, {"role": "gpt", "value": "blue"}]}
{"instruction": "red", "input": "", "output": "blue"}
{"custom_id": "request-1", "method": "POST", "body": {"model": "m", "messages": [{"role": "user", "content": "red"}, {"role": "assistant", "content": "blue"}]}}
{"messages": [{"role": "user", "content": [{"type": "text", "text": "red"}]}, {"role": "assistant", "content": "blue"}], "uuid": "x", "idx": 1, "weights": 2, "images": [], "tool": "x"}
{"system_prompt": "", "question": "red", "response": "blue"}
{"id": "0", "data": ["red", "blue"]}
{"contents": [{"parts": [{"text": "red"}]}, {"role": "model", "parts": [{"text": "blue"}]}]}
END
printf '{"text": "red"}\n{"text": "blue"}\n' >lines.json
printf '[{"text": "red"}, {"text": "blue"}]\n' >array.jsonl
echo '["red", "blue"]' >texts.json
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl --json | sed 's/.*"text"/"text"/'
for file in lines.json array.jsonl texts.json; do
  kvcal prompts "$SOURCE/datasets/demo/natural" --prompts $file --json 2>/dev/null | sed 's/, *"n_tokens".*//; s/.*"text"/"text"/'
done
