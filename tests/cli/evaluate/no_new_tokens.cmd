kvcal evaluate "$SOURCE/datasets/demo/natural" --generate --max-new-tokens 0
# exits 2
