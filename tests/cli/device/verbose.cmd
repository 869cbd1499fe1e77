# -v says how each shape was multiplied.
echo '{"id": "a", "input_ids": [5, 6, 7, 8, 9, 10, 11, 12]}' >prompts.jsonl
"$BUILD/tests/emulated/kvcal" calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl -v --device cuda 2>&1 >/dev/null | grep '^product' | sort | head -n 2
