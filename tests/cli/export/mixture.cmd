# The mixture that --choose finds is exported, read back layer by layer, and evaluated again from the export: equal figures.
set -- --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8
model=$SOURCE/datasets/demo/natural
choose="--choose fp8_e4m3,nvfp4,fp8_e4m3:nvfp4,int8 --max-kl 2.5e-5 -q"
kvcal calibrate "$model" "$@" -q -o s.json
kvcal evaluate "$model" "$@" --scales s.json $choose -o chosen.json
kvcal export s.json --model "$model" --to modelopt --recipe chosen.json -o mixed | grep -e verified -e '^- the recipe'
tr -d ' \n' <mixed/config.json | grep -o '"kv_cache_quantized_layers":{[^}]*}[^"]*'
kvcal validate mixed --scales s.json | grep -o '^[a-z]* [CSV][0-9]* [^ ]*'
kvcal evaluate mixed "$@" --scales s.json $choose -o again.json
for file in chosen again; do tr -d ' \n' <$file.json | grep -o '"recipe":{.*' >$file.txt; done
grep -o '"layers".*' chosen.txt
cmp chosen.txt again.txt && echo equal figures
# FP8 beside FP8 keys with NVFP4 values.
beside="--choose fp8_e4m3,fp8_e4m3:nvfp4 --max-kl 2.7e-5 -q"
kvcal evaluate "$model" "$@" --scales s.json $beside -o chosen2.json
kvcal export s.json --model "$model" --to modelopt --recipe chosen2.json -o beside | grep -e verified -e '^- the recipe'
tr -d ' \n' <beside/config.json | grep -o '"kv_cache_quantized_layers":{.*}}[^"]*'
kvcal validate beside --scales s.json | grep -o '^[a-z]* [CSV][0-9]* [^ ]*'
kvcal evaluate beside "$@" --scales s.json $beside -o again2.json
for file in chosen2 again2; do tr -d ' \n' <$file.json | grep -o '"recipe":{.*' >$file.txt; done
cmp chosen2.txt again2.txt && echo equal figures
# Other targets have one form for all layers: they say so.
kvcal export s.json --model "$model" --recipe chosen.json -o no || echo exit $?
sed 's/"index": 3, "format": "nvfp4"/"index": 3, "format": "int8"/' chosen.json >int8.json
for target in vllm modelopt; do kvcal export s.json --model "$model" --to $target --recipe int8.json -o no || echo exit $?; done
