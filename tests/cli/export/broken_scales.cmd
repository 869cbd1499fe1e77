kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
sed '/"value": {/,/}/ s/"scale": [0-9][0-9.e-]*/"scale": 0.0/' s.json >zero.json
kvcal export zero.json --model "$SOURCE/datasets/demo/natural" -o out || echo exit $?
head -c 500 s.json >cut.json
kvcal export cut.json --model "$SOURCE/datasets/demo/natural" -o out || echo exit $?
ls
