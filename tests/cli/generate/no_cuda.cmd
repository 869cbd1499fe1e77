kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --device cuda
# exits 2
