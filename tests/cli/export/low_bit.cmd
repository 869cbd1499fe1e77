# INT8 with a scale per channel, and the files of servers that read no safetensors; the demo model has 2 KV heads of 64.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json --stats run.kvstats
kvcal solve run.kvstats --dtype int8 --granularity channel -q -o channels.json
kvcal validate channels.json | tail -n 1
for target in lightllm ort-genai; do
  kvcal export s.json --model "$SOURCE/datasets/demo/natural" --to $target -o $target.json >text
  sed -n '/^serve:/,/^$/p' text
done
kvcal export channels.json --model "$SOURCE/datasets/demo/natural" --to ort-genai -o channels.ort.json --json | grep -c '"site"'
grep -o '"layer_ids": .*' channels.ort.json
kvcal export channels.json --model "$SOURCE/datasets/demo/natural" --to lightllm -o out || echo exit $?
kvcal export channels.json --model "$SOURCE/datasets/demo/natural" -o out || echo exit $?
kvcal export channels.json --model "$SOURCE/datasets/demo/natural" --to vllm-ascend -o out || echo exit $?
kvcal solve run.kvstats --granularity channel -q -o out || echo exit $?
kvcal solve run.kvstats --dtype int8 --granularity channel --policy mse -q -o out || echo exit $?
