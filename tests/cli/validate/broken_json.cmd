kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o run.json --stats run.kvstats
sed '/"convention"/d' run.json >broken.json
kvcal validate broken.json --json
# exits 1
