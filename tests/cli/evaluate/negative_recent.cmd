kvcal evaluate "$SOURCE/datasets/demo/stressed" --keep-recent -1
# exits 2
