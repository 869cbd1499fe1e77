kvcal prompts
