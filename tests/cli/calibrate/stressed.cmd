# Also a path with spaces and letters beyond ASCII.
mkdir "a b"
kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -o "a b/ü.json"
ls "a b"
