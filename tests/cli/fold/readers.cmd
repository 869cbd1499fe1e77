# Verbs that read a folded folder say so, and what was measured before does not belong to it.
D=$SOURCE/datasets/demo
kvcal calibrate "$D/stressed" --prompts "$D/prompts.jsonl" --max-prompts 6 -q -o s.json --stats run.kvstats
kvcal fold "$D/stressed" --stats run.kvstats -o out >text
kvcal inspect out | grep folded
kvcal inspect out --json | grep -A 3 '"fold"'
kvcal validate s.json --model out --strict | grep -A 1 -o -E "M04.*weights: |fix: .*"
kvcal validate out --server vllm | grep -A 1 -E "X0|F08|warning"
kvcal doctor out --json | grep '"X03"'
kvcal export s.json --model out -o served || echo exit $?
kvcal export s.json --model "$D/stressed" --to scales --also-for out -o both.json || echo exit $?
kvcal evaluate out --prompts "$D/prompts.jsonl" --scales s.json -o e.json || echo exit $?
kvcal calibrate out --prompts "$D/prompts.jsonl" --max-prompts 6 -q -o own.json
kvcal export own.json --model out -o served >text && kvcal validate served --scales own.json --server vllm | tail -n 1
kvcal fold served --undo -o back || echo exit $?
ls
