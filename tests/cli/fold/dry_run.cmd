# Sites, tensors and bytes; nothing is written, wherever the output would be.
M=$SOURCE/datasets/demo/stressed
kvcal calibrate "$M" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 6 -q -o s.json --stats run.kvstats
kvcal fold "$M" --stats run.kvstats --dry-run
kvcal fold "$M" --stats run.kvstats --dry-run -o out --balance tensor | grep value
kvcal fold "$M" --stats run.kvstats --dry-run --dtype int8 --balance channel | grep value
kvcal fold "$M" --stats run.kvstats --dry-run --json | grep -E '"(out|written|bytes_rewritten|commands)"'
ls
