kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o run.json --stats run.kvstats

# What a percentile clips may be what all look at, and the advice says so.
kvcal solve run.kvstats --policy percentile --percentile 80 | grep -e "^keep16" -e "^check"
