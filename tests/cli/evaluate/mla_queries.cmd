echo '{"input_ids": [1, 2, 3]}' >ids.jsonl
kvcal evaluate "$SOURCE/tests/arch/golden/deepseek_v3" --prompts ids.jsonl -q -o rows.json
kvcal evaluate "$SOURCE/tests/arch/golden/deepseek_v3" --prompts ids.jsonl --query -q -o queries.json
cmp -s rows.json queries.json || echo queries count
