echo '{"messages": [{"role": "user", "content": "red"}, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{city}"}}]}]}' >p.jsonl
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl | head -n 1
