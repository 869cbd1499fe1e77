echo '{"input_ids": [1, 2, 3]}' >ids.jsonl
kvcal evaluate "$SOURCE/tests/arch/golden/qwen3" --prompts ids.jsonl --state-dtype bf16 -q
# exits 2
