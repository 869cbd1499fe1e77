# One JSON object a line, the first at once, the last with all of it done; --quiet leaves nothing else.
set -- "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4
kvcal calibrate "$@" -q --progress json 2>lines
sed 's/[0-9][0-9.]*/N/g' lines | sort -u
head -n 1 lines | grep -c '"sweep":1,.*"tokens_per_second":null'
tail -n 1 lines | grep -o '"done":1.0\|"layer":8\|"n_layers":8'
kvcal evaluate "$@" --scales kv-cache-scales.json --progress json 2>lines >table
grep -c '^{"event":"progress",' lines >/dev/null && echo 'evaluate too'
kvcal calibrate "$@" --force --progress none 2>&1 >table | grep -c progress
kvcal calibrate "$@" --force --progress jsonl
# exits 2
