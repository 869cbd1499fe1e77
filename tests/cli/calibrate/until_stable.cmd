# Every sweep adds a pass; that many are in the file.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 3 --passes 1 --until-stable 3 -q -o out.json
test "$(grep '"passes"' out.json | tr -dc 0-9)" -ge 2 || grep '"passes"' out.json
