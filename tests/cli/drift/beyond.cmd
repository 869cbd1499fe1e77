set -- "$SOURCE/datasets/demo/stressed" -q
head -n 3 "$SOURCE/datasets/demo/prompts.jsonl" >few.jsonl
kvcal calibrate "$@" --prompts few.jsonl -o a.json --stats a.kvstats
kvcal calibrate "$@" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 20 -o b.json --stats 'b"1.kvstats'
kvcal solve a.kvstats -q --policy absmax --headroom 1 -o a.json --force
kvcal drift a.json --stats a.kvstats 'b"1.kvstats' || echo exit $?
kvcal drift a.json --stats 'b"1.kvstats' --format prometheus || echo exit $?
kvcal drift a.json --stats a.kvstats 'b"1.kvstats' --max-clipped 0.5 && echo within
kvcal drift a.json --stats a.kvstats 'b"1.kvstats' --max-clipped 0.5 --max-growth 0 --json >growth.json || echo exit $?
grep -c '"growth"$' growth.json
