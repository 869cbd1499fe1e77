kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o run.json --stats run.kvstats
sed 's/"version": "1.4"/"version": "2.0"/' run.json >new.json
kvcal validate new.json
# exits 1
