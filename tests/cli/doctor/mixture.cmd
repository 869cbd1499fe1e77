# Kinds are told by content: a script, a config.json, a scale file, a log.
printf "#!/bin/sh\nexport A=1\nvllm serve ./model \\\\\n  --kv-cache-dtype fp8\n" > serve.sh
printf "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"]}" > config.json
printf "{\"model_type\": \"llama\", \"kv_cache\": {\"dtype\": \"float8_e4m3fn\", \"scaling_factor\": {\"0\": {\"0\": 0.1}}}}" > scales.json
printf "INFO vLLM server version 0.33.0, serving model ./model\r\n" > server.log
kvcal doctor serve.sh config.json scales.json server.log
# exits 1
