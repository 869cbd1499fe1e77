echo '{"architectures": ["FooForCausalLM"], "model_type": "foo"}' >config.json
kvcal plan config.json --gpu-memory 1GiB
