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
# INT8 and 16 bits by layer, which vLLM-Ascend reads; nobody reads other mixtures with INT8.
demo="--model $SOURCE/datasets/demo/natural"
kvcal evaluate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 --scales channels.json --choose int8 --max-kl 0.1 -q -o all.json
sed 's/"index": 3, "format": "int8"/"index": 3, "format": "bf16"/' all.json >chosen.json
kvcal export channels.json $demo --to vllm-ascend --recipe chosen.json -o mixed | grep -e verified -e '^- the recipe' -e '^- layer'
grep -c '"C8"' mixed/quant_model_description.json
kvcal validate mixed --scales channels.json | tail -n 1
kvcal validate mixed --server vllm | grep -e '^error' -e 'does not start' || echo nothing found
sed 's/"format": "bf16"/"format": "fp8_e4m3"/' chosen.json >other.json
for target in vllm-ascend vllm modelopt; do kvcal export channels.json $demo --to $target --recipe other.json -o no || echo exit $?; done
# MXFP8, with powers of two for the channels of values.
kvcal solve run.kvstats --dtype int8 --granularity channel --policy pow2 -q -o pow2.json
kvcal export pow2.json $demo --to ascend-mxfp8 -o no || echo exit $?
kvcal export channels.json $demo --to ascend-mxfp8 -o mx
grep -v FLOAT mx/quant_model_description.json
head -c 600 mx/model-kv-scales.safetensors | grep -a -o '"dtype":"U8","shape":\[[0-9,]*\]'
kvcal validate mx --scales channels.json | tail -n 1
kvcal export channels.json $demo --to ascend-mxfp8 -o no --skip-layers 3 || echo exit $?
kvcal export channels.json $demo --to ascend-mxfp8 -o no --allow-keep16 || echo exit $?
kvcal export channels.json $demo --to ascend-mxfp8 -o no --recipe chosen.json || echo exit $?
kvcal export s.json $demo --to ascend-mxfp8 -o no || echo exit $?
# One wrong byte, of the last channel of layer 7.
size=$(stat -c %s mx/model-kv-scales.safetensors)
printf '\000' | dd of=mx/model-kv-scales.safetensors bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
kvcal validate mx --scales channels.json | grep -e '^error C23' -e '^warning V06' || echo nothing found
