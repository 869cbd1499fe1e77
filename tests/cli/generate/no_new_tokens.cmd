kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --max-new-tokens 0
# exits 2
