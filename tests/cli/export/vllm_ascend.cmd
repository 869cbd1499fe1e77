# A checkpoint for vLLM-Ascend: every weight listed, scales and offsets of 2 KV heads of 24 channels in 3 layers.
model=$SOURCE/tests/arch/golden/qwen3
printf '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n{"input_ids": [9, 8, 7, 6, 5, 4, 3, 2]}\n' >prompts.jsonl
kvcal calibrate "$model" --prompts prompts.jsonl --no-sanity --dtype int8 --granularity channel -q -o s.json
kvcal export s.json --model "$model" --to vllm-ascend -o out --allow-keep16 >text
sed -n '/^serve:/,/^$/p' text
grep -c '": "FLOAT"' out/quant_model_description.json
grep -c '": "C8"' out/quant_model_description.json
head -c 3000 out/model-kv-scales.safetensors | grep -a -o '"shape":\[[0-9,]*\]' | sort | uniq -c | sed 's/^ *//'
cmp out/config.json "$model/config.json"
kvcal export s.json --model out --to vllm-ascend -o again --allow-keep16 || echo exit $?
kvcal export s.json --model out --to vllm-ascend -o again --allow-keep16 --replace-scales >text && cmp out/model-kv-scales.safetensors again/model-kv-scales.safetensors
