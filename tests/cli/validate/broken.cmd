kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o run.json --stats run.kvstats
sed 's/"scale": [0-9.]*/"scale": -1.0/' run.json >broken.json
kvcal validate broken.json
# exits 1
