# An adapter of the model is folded along; one of another model, and a decomposed one where columns change, are refused.
M=$SOURCE/datasets/demo/stressed
kvcal calibrate "$M" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 6 -q -o s.json --stats run.kvstats
adapter() { # FOLDER MODULE PART ELEMENTS: one BF16 tensor of ones
  mkdir "$1" && echo '{"peft_type": "LORA"}' >"$1/adapter_config.json"
  header="{\"base_model.model.model.layers.$2.$3\":{\"dtype\":\"BF16\",\"shape\":[$4],\"data_offsets\":[0,$(($4 * 2))]}}"
  length=${#header}
  printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))\\0\\0\\0\\0\\0\\0%s" "$header" >"$1/adapter_model.safetensors"
  for _ in $(seq "$4"); do printf '\200\77'; done >>"$1/adapter_model.safetensors"
}
adapter b 3.self_attn.v_proj lora_B.weight 128
adapter a 3.self_attn.v_proj lora_A.weight 96
adapter o 3.self_attn.o_proj lora_A.weight 256
adapter dora 3.self_attn.o_proj lora_magnitude_vector 96
adapter foreign 30.self_attn.o_proj lora_A.weight 256
kvcal fold "$M" --stats run.kvstats -o out --adapter b --adapter a --adapter o | grep adapter
for name in a b o; do tail -c 2 out-$name/adapter_model.safetensors | od -An -tx1; done
for name in dora foreign nowhere b; do
  kvcal fold "$M" --stats run.kvstats -o other --adapter $name || echo exit $?
  kvcal fold "$M" --stats run.kvstats --dry-run --adapter $name | grep adapter
  rm -rf other
done
ls
