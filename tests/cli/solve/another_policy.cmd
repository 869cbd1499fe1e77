kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o run.json --stats run.kvstats
kvcal solve run.kvstats --policy absmax | sed -n 4p
COLUMNS=160 kvcal solve run.kvstats --policy absmax -v --force | sed -n '3,9p'
grep -m 1 -e '"policy"' kv-cache-scales.json
cmp -s run.json kv-cache-scales.json || echo differs
kvcal validate kv-cache-scales.json
