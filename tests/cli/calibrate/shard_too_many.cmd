echo '{"input_ids": [1, 2, 3]}' >prompts.jsonl
kvcal calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl --shard 1/3 --stats s.kvstats -q
# exits 2
