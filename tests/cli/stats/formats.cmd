kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o run.json --stats run.kvstats >log
kvcal stats run.kvstats --formats
kvcal stats run.kvstats --json | grep -c '"nvfp4": 0\.'
