kvcal evaluate "$SOURCE/datasets/demo/natural" --threads -1
# exits 2
