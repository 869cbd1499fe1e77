kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o run.json --stats run.kvstats
kvcal solve run.kvstats --json -o s.json
