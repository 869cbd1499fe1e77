# A statistics file: the reader's checks, and those of the scales it gives.
kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q -o run.json --stats run.kvstats
kvcal validate run.kvstats --model "$SOURCE/datasets/demo/stressed"
head -c 5000 run.kvstats >cut.kvstats
kvcal validate cut.kvstats || echo exit $?
cp cut.kvstats "no suffix"
kvcal validate "no suffix" || echo exit $?
kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q --shard 1/2 --stats 1.kvstats
kvcal validate 1.kvstats || echo exit $?
kvcal validate nowhere.kvstats || echo exit $?
