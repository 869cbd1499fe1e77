# For programs: what was written, how to serve it, and every scale.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o out --no-query --json >report.json
grep -c '"site": "key"' report.json
grep -c '"site": "query"' report.json
grep -A 2 '"commands"' report.json
