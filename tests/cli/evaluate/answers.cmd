set -- "$SOURCE/datasets/demo/stressed" -q
kvcal calibrate "$@" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 12 -o scales.json
set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 8 --generate --max-new-tokens 32
kvcal evaluate "$@" --scales scales.json 2>told
grep -c 'one at a time, [0-9.e+]* a second$' told
kvcal evaluate "$@" -q -o one.json --min-correct 0.9 || echo exit $?
kvcal evaluate "$@" -q -o both.json --scales scales.json --min-correct 0.5 && echo right
for i in 1 2 3; do sed 's/"id": "[^"]*", //' "$SOURCE/datasets/demo/questions.jsonl" | grep 'copy 2' | head -2; done >thrice.jsonl
kvcal evaluate "$1" --prompts thrice.jsonl --generate --max-new-tokens 8 -o thrice.json 2>told | sed -n '/^right/,/^next/p'
kvcal evaluate "$@" -q -o all.json --scales scales.json --min-correct 0.9
# exits 3
