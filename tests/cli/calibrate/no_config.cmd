mkdir model
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl"
# exits 2
