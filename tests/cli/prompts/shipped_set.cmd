kvcal prompts "$SOURCE/datasets/demo/natural" | tail -n 2
