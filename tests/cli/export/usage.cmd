# Flags that do not go together, and what is missing.
echo "{}" >s.json
M=$SOURCE/datasets/demo/natural
for flags in "" "s.json" "s.json --model $M" "s.json --model $M --to nonsense -o x" "s.json --model $M -o x --tp 2" \
  "s.json --model $M --to sglang-json --tp 0 -o x" "s.json --model $M -o x --nvfp4" "s.json --model $M --to scales -o x" \
  "s.json --model $M --also-for $M -o x" "s.json --model $M --in-place -o x" "s.json --model $M --to json --copy -o x" \
  "--undo" "--undo --model nowhere" "s.json --model nowhere -o x" "s.json --model $M -o x" "nowhere.json --model $M -o x" \
  "s.json t.json --model $M -o x" "s.json --model $M -o x --frobnicate"; do
  kvcal export $flags || echo exit $?
done
ls
