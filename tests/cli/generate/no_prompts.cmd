kvcal generate "$SOURCE/datasets/demo/natural"
# exits 2
