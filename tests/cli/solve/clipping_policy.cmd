kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o run.json --stats run.kvstats

# What a percentile clips is lost, and the advice says so.
kvcal solve run.kvstats --policy percentile --percentile 99 | tail -n 1
