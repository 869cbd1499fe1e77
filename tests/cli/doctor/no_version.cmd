kvcal doctor --server vllm@new x
# exits 2
