kvcal prompts
# exits 2
