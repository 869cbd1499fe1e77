echo '{"input_ids": [1, 2, 3]}' >ids.jsonl
kvcal evaluate "$SOURCE/tests/arch/golden/gemma4" --prompts ids.jsonl --keep-recent 16 -q
