kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --precision fp32
# exits 2
