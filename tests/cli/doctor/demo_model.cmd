kvcal doctor --server vllm --command "vllm serve m --kv-cache-dtype fp8" "$SOURCE/datasets/demo/natural"
# exits 1
