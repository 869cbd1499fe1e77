# Token ids that have nothing to do with the model's language: no better than guessing.
awk 'BEGIN { printf "{\"input_ids\": [600"; for (i = 0; i < 99; ++i) printf ", %d", (i * i * 37 + 11 * i) % 600; print "]}" }' >p.jsonl
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts p.jsonl -q
