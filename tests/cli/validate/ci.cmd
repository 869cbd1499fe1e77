# The gate of a build: one line, an exit code, annotations where something is wrong.
kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q -o run.json --stats run.kvstats
kvcal validate run.json --model "$SOURCE/datasets/demo/stressed" --strict --format github
