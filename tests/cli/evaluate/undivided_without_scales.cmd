kvcal evaluate "$SOURCE/datasets/demo/stressed" --undivided
# exits 2
