kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --threads -1
# exits 2
