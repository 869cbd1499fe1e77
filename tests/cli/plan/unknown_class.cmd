sed 's/Qwen3_5ForCausalLM/FooForCausalLM/' "$SOURCE/datasets/demo/natural/config.json" >config.json
kvcal plan config.json --gpu-memory 1GiB --allowance 100MiB --weights 2MiB --context 2048 --concurrency 4
