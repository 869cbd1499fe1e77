cp -r "$SOURCE/datasets/demo/natural" model
sed 's/Qwen3_5ForCausalLM/Qwen3_5ForCausalML/' "$SOURCE/datasets/demo/natural/config.json" >model/config.json
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl"
# exits 2
