kvcal prompts MODEL --promts chats.jsonl
