# Where any scale will do there is nothing to fold, unless it is forced.
M=$SOURCE/datasets/demo/natural
kvcal calibrate "$M" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 6 -q -o s.json --stats run.kvstats
kvcal fold "$M" --stats run.kvstats -o out && ls
kvcal fold "$M" --stats run.kvstats -o out --json | grep -E '"written"|"commands"|"tensors"|"check"'
ls
kvcal fold "$M" --stats run.kvstats -o out --force && ls
