kvcal evaluate "$SOURCE/datasets/demo/natural" --scales nowhere.json
# exits 2
