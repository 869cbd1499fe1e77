# For this checkpoint, for its twin with other weights, and for another model altogether.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q -o run.json
kvcal validate run.json --model "$SOURCE/datasets/demo/natural"
kvcal validate run.json --model "$SOURCE/datasets/demo/stressed" || echo exit $?
kvcal validate run.json --model "$SOURCE/tests/arch/golden/llama" | sed -n 's/^error \([A-Z0-9]*\) .*/\1/p' | sort | uniq -c | sed 's/^ *//'
kvcal validate run.json --model nowhere || echo exit $?
