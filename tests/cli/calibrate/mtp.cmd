# The cache of an MTP layer, from measuring to what servers load. All other numbers are those of a run without it.
golden="$SOURCE/tests/arch/golden/qwen3_next"
# Each tensor of a file in the index.
names() {
  header=$(od -An -tu8 -N8 "model/$1" | tr -d " ")
  tail -c +9 "model/$1" | head -c "$header" | grep -ao '"[^"]*":{"dtype"' | sed "s/:{\"dtype\"/:\"$1\",/"
}
mkdir model
cp "$golden/config.json" "$golden/model.safetensors" model
echo '{"id": "a", "input_ids": [5, 9, 33, 70, 21, 40, 8, 52, 17, 66]}
{"id": "b", "input_ids": [12]}' >prompts.jsonl
kvcal calibrate model --prompts prompts.jsonl --mtp -q
cp "$SOURCE/tests/arch/mtp/qwen3_next/mtp.safetensors" model
{ echo '{"weight_map":{'; names model.safetensors; names mtp.safetensors; echo '"":""}}'; } >index
sed '$!{N;s/,\n"":""/\n/;P;D}' index >model/model.safetensors.index.json
kvcal inspect model | grep MTP
kvcal inspect model --json | grep mtp_layer
kvcal calibrate model --prompts prompts.jsonl -o without.json --no-sanity 2>&1 >/dev/null | grep MTP
kvcal calibrate model --prompts prompts.jsonl -o with.json --stats with.kvstats --mtp --no-sanity 2>/dev/null | grep mtp
grep -c '"observations": 19' with.json
kvcal diff without.json with.json | head -2
kvcal solve with.kvstats -o again.json -q >/dev/null && cmp with.json again.json
kvcal validate with.json --model model | tail -1
kvcal export with.json --model model --to sglang -o served | grep "MTP"
kvcal validate served | grep self_attn
kvcal export with.json --model model --to json -o plain.json | grep -c MTP
kvcal evaluate model --scales with.json --prompts prompts.jsonl -q >/dev/null && echo evaluated
rm model/mtp.safetensors model/model.safetensors.index.json
kvcal export with.json --model model --to vllm -o other | grep MTP
