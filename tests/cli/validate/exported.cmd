for kind in natural stressed; do
  model="$SOURCE/datasets/demo/$kind"
  kvcal calibrate "$model" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o s.json --stats s.kvstats --force >all 2>&1
  for target in vllm sglang; do
    kvcal export s.json --model "$model" --to $target -o $kind-$target >all
    kvcal validate $kind-$target --scales s.json --server vllm@0.33 --server sglang@0.5.23 | tail -n 1
    kvcal validate $kind-$target --stats s.kvstats | tail -n 1
  done
done
# Alone, the record of the export says that the stressed model's scales were measured; without it nothing does.
kvcal validate stressed-vllm | tail -n 1
rm stressed-vllm/kvcal-export.json
kvcal validate stressed-vllm | grep -o '^[a-z]* S0[45]'
kvcal export s.json --model "$model" --to tgi -o tgi >all
kvcal validate tgi --scales s.json --server vllm@0.33 | grep -c 'does not start'
