kvcal prompts nowhere
# exits 2
