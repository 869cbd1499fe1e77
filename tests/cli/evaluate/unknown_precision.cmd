kvcal evaluate "$SOURCE/datasets/demo/natural" --precision f16
# exits 2
