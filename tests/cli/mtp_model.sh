# sh mtp_model.sh CASE: ./model, the golden checkpoint of a case and its MTP layer as a second shard; ./prompts.jsonl.
names() { # each tensor of a shard, as the index has them
  header=$(od -An -tu8 -N8 "model/$1" | tr -d " ")
  tail -c +9 "model/$1" | head -c "$header" | grep -ao '"[^"]*":{"dtype"' | sed "s/:{\"dtype\"/:\"$1\",/"
}
mkdir -p model
cp "$SOURCE/tests/arch/golden/$1/config.json" "$SOURCE/tests/arch/golden/$1/model.safetensors" model
cp "$SOURCE/tests/arch/mtp/$1/mtp.safetensors" model
{ echo '{"weight_map":{'; names model.safetensors; names mtp.safetensors; echo '"":""}}'; } >index
sed '$!{N;s/,\n"":""/\n/;P;D}' index >model/model.safetensors.index.json
rm index
echo '{"id": "a", "input_ids": [5, 9, 33, 70, 21, 40, 8, 52, 17, 66]}
{"id": "b", "input_ids": [12]}' >prompts.jsonl
