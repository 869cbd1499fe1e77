kvcal prompts "$SOURCE/datasets/demo/natural" --max-length many
# exits 2
