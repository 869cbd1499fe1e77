kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --threads -1
