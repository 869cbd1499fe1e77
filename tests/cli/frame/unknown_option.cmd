kvcal prompts MODEL --promts chats.jsonl
# exits 2
