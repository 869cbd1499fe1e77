# One layer to be kept in the model's dtype, by number and by assessment.
kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
kvcal export s.json --model "$SOURCE/datasets/demo/stressed" -o a --skip-layers 3,7-7 | grep skip-layers
kvcal export s.json --model "$SOURCE/datasets/demo/stressed" -o b --skip-layers 4 || echo exit $?
kvcal export s.json --model "$SOURCE/datasets/demo/stressed" -o b --skip-layers all || echo exit $?
sed '0,/"verdict"/ { s/"fp8": "[a-z]*"/"fp8": "keep16"/; s/"verdict": "[a-z]*"/"verdict": "inadequate"/ }' s.json >bad.json
kvcal export bad.json --model "$SOURCE/datasets/demo/stressed" -o b || echo exit $?
kvcal export bad.json --model "$SOURCE/datasets/demo/stressed" -o b --skip-layers keep16 | grep skip-layers
kvcal export bad.json --model "$SOURCE/datasets/demo/stressed" -o c --allow-keep16 | grep -c 'vllm serve c --kv-cache-dtype fp8$'
sed '/"[kv][a-z]*": {/,/"verdict"/ { s/"fp8": "[a-z]*"/"fp8": "keep16"/; s/"verdict": "[a-z]*"/"verdict": "inadequate"/ }' s.json >ruined.json
kvcal export ruined.json --model "$SOURCE/datasets/demo/stressed" -o d || echo exit $?
