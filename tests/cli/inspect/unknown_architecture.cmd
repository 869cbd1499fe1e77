sed 's/Qwen3_5ForCausalLM/Qwen3_5ForCausalML/' "$SOURCE/datasets/demo/natural/config.json" >config.json
kvcal inspect config.json --json
# exits 1
