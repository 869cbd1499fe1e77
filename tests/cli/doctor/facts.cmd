# What is known of a run, and what would settle the rest.
kvcal doctor --facts --server vllm@0.19.0 --gpu H100 --command 'vllm serve m --kv-cache-dtype bfloat16 --attention-backend FLASHINFER'
kvcal doctor --facts --json --command 'vllm serve m'
# exits 2
