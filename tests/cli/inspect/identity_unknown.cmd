cp -r "$SOURCE/datasets/demo/natural" .
sed -i 's/Qwen3_5ForCausalLM/NeverHeardOfForCausalLM/' natural/config.json
kvcal inspect natural --identity
