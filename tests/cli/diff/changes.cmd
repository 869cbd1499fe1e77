set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q --policy absmax
kvcal calibrate "$@" -o a.json --stats a.kvstats
kvcal solve a.kvstats -q --policy absmax --headroom 2.04 -o b.json
kvcal solve a.kvstats -q --policy absmax --headroom 64 -o c.json
kvcal solve a.kvstats -q -o d.json
kvcal diff a.json a.kvstats && kvcal diff a.kvstats d.json && kvcal diff a.kvstats a.kvstats
kvcal diff a.json b.json || echo exit $?
kvcal diff a.json b.json --tolerance 0.03 && echo accepted
kvcal diff a.json c.json --tolerance 1000 || echo exit $?
kvcal diff a.json c.json --json | grep -c '"effect": "B is 64 times too large for A"'
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q --policy absmax -o n.json
kvcal diff a.json n.json --tolerance 1000 | grep '^!'
