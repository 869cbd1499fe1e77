kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q --policy absmax -o run.json --stats run.kvstats
sed 's/"7": [0-9.]* }/"7": 1.0 }/' run.json >changed.json
kvcal validate changed.json
# exits 1
