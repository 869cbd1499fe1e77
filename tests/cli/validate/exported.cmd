model="$SOURCE/datasets/demo/natural"
kvcal calibrate "$model" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json --stats s.kvstats >all
for target in vllm sglang; do
  kvcal export s.json --model "$model" --to $target -o $target >all
  kvcal validate $target --scales s.json --server vllm@0.33 --server sglang@0.5.23 | tail -n 1
  kvcal validate $target --stats s.kvstats | tail -n 1
done
kvcal export s.json --model "$model" --to tgi -o tgi >all
kvcal validate tgi --server vllm@0.33 | grep -c 'does not start'
