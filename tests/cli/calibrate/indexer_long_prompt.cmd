# Up to index_topk (65) tokens the model's indexer picks every key, and packed sequences stay below.
for i in 1 2; do echo "{\"id\": \"p$i\", \"input_ids\": [$(seq -s , $i 3 90)]}"; done >short.jsonl
kvcal calibrate "$SOURCE/tests/arch/golden/deepseek_v32" --prompts short.jsonl --max-length 0 --no-sanity -q -o short.json || exit 9
echo "{\"id\": \"long\", \"input_ids\": [$(seq -s , 1 66)]}" >long.jsonl
kvcal calibrate "$SOURCE/tests/arch/golden/deepseek_v32" --prompts long.jsonl --max-length 0 -q
