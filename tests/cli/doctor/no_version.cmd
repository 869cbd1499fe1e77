kvcal doctor --server vllm@new x
