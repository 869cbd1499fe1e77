kvcal prompts MODEL --prompts
