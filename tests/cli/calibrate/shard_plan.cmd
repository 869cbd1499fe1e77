for i in 1 2 3 4 5; do echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i]}"; done >prompts.jsonl
kvcal calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl --shard 2/3 --dry-run
