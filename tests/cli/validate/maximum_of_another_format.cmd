kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o run.json --stats run.kvstats
sed 's/"max": 448/"max": 240/' run.json >changed.json
kvcal validate changed.json
# exits 1
