kvcal generate "$SOURCE/datasets/demo/natural" --prompt '' --raw
# exits 2
