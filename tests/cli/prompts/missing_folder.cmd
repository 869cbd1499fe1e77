kvcal prompts nowhere
