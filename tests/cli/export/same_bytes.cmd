# Equal inputs give equal bytes, and the publisher's config keeps its text.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o a >text
kvcal export s.json --model "$SOURCE/datasets/demo/natural" -o b --copy >text
diff -r a b && echo the same
diff "$SOURCE/datasets/demo/natural/config.json" a/config.json
# exits 1
