kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o run.json --stats run.kvstats
sed '/"value": {/,/}/ s/"scale": [0-9.e-]*/"scale": 1.0/' run.json >changed.json
kvcal validate changed.json
# exits 1
