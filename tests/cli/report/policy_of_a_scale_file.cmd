kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o scales.json --stats run.kvstats >log

kvcal report scales.json --policy pow2
# exits 2
