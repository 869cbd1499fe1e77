kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --top -1
# exits 2
