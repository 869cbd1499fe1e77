set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q
kvcal calibrate "$@" -o a.json --stats a.kvstats
kvcal drift a.json --stats a.kvstats
kvcal solve a.kvstats -q --policy percentile --dtype int8 --percentile 99 -o p.json
kvcal drift p.json --stats a.kvstats | tail -n 1
kvcal drift a.json --stats a.kvstats --json | head -n 12
