# An evaluation: by itself, for its model and scales, for others, damaged, and beside a scale file that was not evaluated.
kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json
kvcal evaluate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 2 --scales s.json \
  --per-layer --choose fp8_e4m3 --max-kl 1 --generate --max-new-tokens 4 -q -o e.json
kvcal validate e.json --model "$SOURCE/datasets/demo/stressed" --scales s.json
kvcal validate e.json --model "$SOURCE/datasets/demo/natural" || echo exit $?
sed 's/"n_prompts": 2/"n_prompts": 3/; s/"index": 3, "format"/"index": 7, "format"/' e.json >bad.json
kvcal validate bad.json --format github || echo exit $?
sed 's/"1.3"/"2.0"/' e.json >later.json
kvcal validate later.json | grep A04
sed 's/$/ /' s.json >other.json
kvcal validate e.json --scales other.json | grep -c D06
echo '{}' >kv-cache-scales.json
kvcal validate e.json --strict || echo exit $?
for flags in "--tp 2" "--stats run.kvstats" "--server vllm" "--scales nowhere.json"; do kvcal validate e.json $flags || echo exit $?; done
