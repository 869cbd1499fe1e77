kvcal evaluate "$SOURCE/datasets/demo/natural" --min-correct 0.5
# exits 2
