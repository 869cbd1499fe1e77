: >empty.jsonl
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts empty.jsonl
ls
