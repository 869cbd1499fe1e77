cp -r "$SOURCE/datasets/demo/natural" model
sed 's/Qwen3_5ForCausalLM/Qwen3_5ForCausalML/' "$SOURCE/datasets/demo/natural/config.json" >model/config.json
kvcal generate model --prompt x
# exits 2
