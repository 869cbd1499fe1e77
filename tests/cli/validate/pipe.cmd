# Pipes and standard input are read once, and checked as files are.
M=$SOURCE/datasets/demo/natural
set -- -p "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q
kvcal calibrate "$M" "$@" -o s.json --stats run.kvstats --evaluate e.json
cat s.json | kvcal validate /dev/fd/0 --server sglang@0.5.23 --tp 2 --model "$M"
cat run.kvstats | kvcal validate /dev/stdin --model "$M"
cat e.json | kvcal validate - --scales s.json
kvcal validate - <s.json
sed s/0.0/7.0/ s.json | kvcal validate - --format github | cut -c 1-40
head -c 9000 run.kvstats | kvcal validate -; echo $?
exec 2>&1
kvcal validate run.kvstats --tp 2
printf 'GGUF' | kvcal validate -; echo $?
head -c 600000000 /dev/zero | kvcal validate -; echo $?
kvcal validate /dev/null; echo $?
