kvcal calibrate "$SOURCE/datasets/demo/natural" -p "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 1 -q -o s.json --stats run.kvstats
cp -r "$SOURCE/datasets/demo/natural" model
sed "s/Qwen3_5ForCausalLM/FooForCausalLM/" "$SOURCE/datasets/demo/natural/config.json" >model/config.json
kvcal fold model --stats run.kvstats -o out
# exits 2
