# The twin has other weights: refused, until the scale file lists it.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
kvcal export s.json --model "$SOURCE/datasets/demo/stressed" -o out || echo exit $?
kvcal export s.json --model "$SOURCE/datasets/demo/natural" --to scales --also-for "$SOURCE/datasets/demo/stressed" -o both.json
kvcal export both.json --model "$SOURCE/datasets/demo/stressed" -o out | grep -c 'vllm serve out'
kvcal export s.json --model "$SOURCE/datasets/demo/natural" --to scales --also-for "$SOURCE/tests/arch/golden/llama" -o c.json || echo exit $?
ls
