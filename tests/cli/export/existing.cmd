# --force replaces exports and nothing else.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o out >text
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o out || echo exit $?
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o out --to tgi --force >text && ls out
mkdir mine && echo precious >mine/file
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o mine --force || echo exit $?
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o mine/file || echo exit $?
cat mine/file
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o nowhere/out || echo exit $?
