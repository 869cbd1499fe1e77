kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o run.json --stats run.kvstats
sed 's/{ "index": 0, "kind"/{ "index": 3, "kind"/' run.json >changed.json
kvcal validate changed.json
# exits 1
