# Statistics of another model, of a shard, and a checkpoint that has scales.
D=$SOURCE/datasets/demo
kvcal calibrate "$D/stressed" --prompts "$D/prompts.jsonl" --max-prompts 6 -q -o s.json --stats run.kvstats
kvcal calibrate "$D/stressed" --prompts "$D/prompts.jsonl" --max-prompts 6 --shard 1/2 -q --stats shard.kvstats
kvcal fold "$D/natural" --stats run.kvstats -o out || echo exit $?
kvcal fold "$D/stressed" --stats shard.kvstats -o out || echo exit $?
kvcal export s.json --model "$D/stressed" -o scaled >text
kvcal fold scaled --stats run.kvstats -o out || echo exit $?
ls
