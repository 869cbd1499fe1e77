# Warnings count with --strict only.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q --policy absmax --headroom 1 -o run.json
kvcal validate run.json | grep -c S15
kvcal validate run.json >all.txt && echo accepted
kvcal validate run.json --strict >strict.txt || echo exit $?
tail -n 1 strict.txt
