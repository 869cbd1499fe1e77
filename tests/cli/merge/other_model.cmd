echo '{"input_ids": [1, 2, 3]}' >prompts.jsonl
kvcal calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl -q -o a.json --stats a.kvstats
kvcal calibrate "$SOURCE/tests/arch/golden/llama" --prompts prompts.jsonl -q -o b.json --stats b.kvstats
kvcal calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl -q -o c.json --stats c.kvstats --precision f32
cp -r "$SOURCE/tests/arch/golden/qwen3" copy && cp "$SOURCE/datasets/demo/natural/tokenizer.json" copy
kvcal calibrate copy --prompts prompts.jsonl -q -o d.json --stats d.kvstats
for other in b c d a; do kvcal merge a.kvstats $other.kvstats -o x.kvstats || echo exit $?; done
test -e x.kvstats || echo nothing written
