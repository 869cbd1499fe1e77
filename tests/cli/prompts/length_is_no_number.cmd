kvcal prompts "$SOURCE/datasets/demo/natural" --max-length many
