kvcal prompts "$SOURCE/datasets/demo/natural" --template-kwargs '[1]'
# exits 2
