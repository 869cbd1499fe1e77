# The same finding for people, programs, code scanning and build logs; the line is that of the member.
kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q -o run.json --stats run.kvstats
sed 's/"n_kv_layers": 2/"n_kv_layers": 3/' run.json >"a file, 100%.json"
for format in text json github; do kvcal validate "a file, 100%.json" --format $format || echo exit $?; done
kvcal validate "a file, 100%.json" --format sarif | sed -n '/"results"/,/"properties"/p'
grep -n n_kv_layers run.json
kvcal validate run.json --format yaml || echo exit $?
