# A good file is one line; -v lists what was not checked.
kvcal calibrate "$SOURCE/datasets/demo/natural" -p "$SOURCE/datasets/demo/prompts.jsonl" -q -o s.json
kvcal validate s.json
kvcal validate s.json -v
