# As a server's backend computes it: another result, which the file and the page name; without the option nothing is said.
set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 12 --device cpu
kvcal calibrate "$@" -q -o scales.json
for path in vllm@0.33.0:TRITON_ATTN sglang@0.5.23:triton; do
  kvcal evaluate "$@" --scales scales.json --attention $path -o $path.json | grep '^attention'
  grep '"attention"' $path.json
  kvcal validate $path.json --model "$1" --scales scales.json
done
kvcal evaluate "$@" --scales scales.json --attention sglang@0.5.23:triton --threads 1 --chunk-tokens 256 -q -o again.json
cmp sglang@0.5.23:triton.json again.json && echo the same in other batches
kvcal evaluate "$@" --scales scales.json -q -o without.json
grep attention without.json || echo none
kvcal report scales.json --evaluation sglang@0.5.23:triton.json -o page.html
grep -o 'with the attention of [^.]*[.][^.]*[.]23:triton' page.html
