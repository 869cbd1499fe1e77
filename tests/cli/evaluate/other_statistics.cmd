set -- --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q
kvcal calibrate "$SOURCE/datasets/demo/stressed" "$@" -o scales.json --stats run.kvstats
kvcal evaluate "$SOURCE/datasets/demo/natural" "$@" --stats run.kvstats --formats int8
# exits 2
