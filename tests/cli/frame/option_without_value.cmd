kvcal prompts MODEL --prompts
# exits 2
