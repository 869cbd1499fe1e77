# An MTP layer under the number behind the last one: its scales under the name that vLLM's loader of it takes.
golden="$SOURCE/tests/arch/golden/glm4_moe"
# Each tensor of a file in the index.
names() {
  header=$(od -An -tu8 -N8 "model/$1" | tr -d " ")
  tail -c +9 "model/$1" | head -c "$header" | grep -ao '"[^"]*":{"dtype"' | sed "s/:{\"dtype\"/:\"$1\",/"
}
mkdir model
cp "$golden/config.json" "$golden/model.safetensors" "$SOURCE/tests/arch/mtp/glm4_moe/mtp.safetensors" model
{ echo '{"weight_map":{'; names model.safetensors; names mtp.safetensors; echo '"":""}}'; } >index
sed '$!{N;s/,\n"":""/\n/;P;D}' index >model/model.safetensors.index.json
echo '{"id": "a", "input_ids": [5, 9, 33, 70, 21, 40, 8, 52, 17, 66]}
{"id": "b", "input_ids": [12]}' >prompts.jsonl
kvcal calibrate model --prompts prompts.jsonl -o without.json --no-sanity 2>&1 >/dev/null | grep -E "MTP|not used"
kvcal calibrate model --prompts prompts.jsonl -o with.json --mtp --no-sanity 2>/dev/null | grep mtp
kvcal diff without.json with.json | head -2
kvcal validate with.json --model model | tail -1
kvcal export with.json --model model --to vllm -o served | grep "MTP"
kvcal validate served | grep self_attn
tr , "\n" <served/model.safetensors.index.json | grep -o "layers.3.*_scale"
kvcal export with.json --model model --to sglang -o other
sed 's/"num_nextn_predict_layers": 1/"num_nextn_predict_layers": 2/' "$golden/config.json" >model/config.json
kvcal calibrate model --prompts prompts.jsonl --mtp -q
