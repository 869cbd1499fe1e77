# A checkpoint that carries scales gets others: refused unless it is said, and then no old one is left.
mkdir model && cp "$SOURCE"/datasets/demo/natural/* model
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
kvcal export s.json --model model -o first >/dev/null
kvcal export s.json --model first -o second || echo exit $?
kvcal export s.json --model first --replace-scales -o second | head -1
kvcal validate second --scales s.json | tail -1
