# What a shell hands over as a pipe, also by <(COMMAND), is read like a file: packed, slow, but once. Named ones are not.
M=$SOURCE/datasets/demo/natural
exec 2>&1
head -n 2 "$SOURCE/datasets/demo/prompts.jsonl" >p.jsonl
kvcal calibrate "$M" -p p.jsonl -q -o s.json && kvcal evaluate "$M" -p p.jsonl --scales s.json -q -o e.json
gzip -c p.jsonl | kvcal calibrate "$M" -p /dev/stdin -q -o other.json && cmp s.json other.json
{ head -n 1 p.jsonl && sleep 0.2 && tail -n 1 p.jsonl; } | kvcal prompts "$M" -p /dev/stdin | tail -n 3
cat s.json | kvcal export /dev/stdin --model "$M" --to json -o - | head -n 2
cat e.json | kvcal report s.json --evaluation /dev/stdin -q -o r.html && grep -c 'KV cache of' r.html
echo 'vllm serve m --kv-cache-dtype fp8' | kvcal doctor --command-file /dev/stdin | grep ": command"
cat p.jsonl | kvcal prompts "$M" -p /dev/stdin /dev/stdin
cat s.json | kvcal prompts "$M" -p /dev/stdin
mkfifo named && kvcal prompts "$M" -p named
# exits 2
