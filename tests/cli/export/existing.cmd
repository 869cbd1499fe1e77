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
# What someone put into an earlier export is not deleted with it: a file, a hidden folder, what another verb wrote there.
for own in notes.txt .git/HEAD s.json; do
  mkdir -p "$(dirname "out/$own")" && echo mine >"out/$own"
  kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o out --force || echo exit $?
  cat "out/$own" && rm "out/$own" && rmdir out/.git 2>/dev/null
done
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o out --force >text && ls -a | grep -v '^[.]*$'
