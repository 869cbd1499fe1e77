for i in 1 2 3 4 5; do echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i]}"; done >prompts.jsonl
kvcal launch "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl --print slurm --parts 11
# exits 2
