# As many parts as multiply longer than they read: 100 tokens for each thread, in powers of two.
for i in 1 2 3 4 5; do echo "{\"id\": \"p$i\", \"weight\": 20, \"input_ids\": [$i, 7, 1$i, 3, 2$i]}"; done >prompts.jsonl
for threads in 1 4 4096; do
  kvcal launch "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl --print mpi --threads $threads | grep '^# Calibrates'
done
