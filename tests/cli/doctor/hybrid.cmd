kvcal doctor --server vllm@0.17.1 --command 'vllm serve Qwen/Qwen3.5-35B-A3B --kv-cache-dtype fp8 --calculate-kv-scales'
# exits 1
