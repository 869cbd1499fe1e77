kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o run.json --stats run.kvstats
kvcal validate run.json
kvcal validate run.json --json
