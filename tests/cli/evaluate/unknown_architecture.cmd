cp -r "$SOURCE/datasets/demo/natural" model
sed "s/Qwen3_5ForCausalLM/FooForCausalLM/" "$SOURCE/datasets/demo/natural/config.json" >model/config.json
kvcal evaluate model --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2
# exits 2
