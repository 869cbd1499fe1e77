# Which of both lists of frequencies rotates the keys depends on what the server will allow.
model="$SOURCE/tests/arch/golden/phi3_longrope"
echo '{"id": "text", "input_ids": [1, 2, 3, 4, 5]}' >text.jsonl
kvcal calibrate "$model" --prompts text.jsonl -q --stats long.kvstats -o long.json >/dev/null
grep -A 2 longrope long.json
kvcal calibrate "$model" --prompts text.jsonl -q --max-model-len 6 -o short.json >/dev/null
grep -A 2 longrope short.json
kvcal solve long.kvstats --max-model-len 6 -o other.json
# exits 2
