# Three shards, merged in any order, are the run in one piece: statistics and scales, byte for byte.
for i in 1 2 3 4 5; do echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i]}"; done >prompts.jsonl
set -- "$SOURCE/tests/arch/golden/qwen3_5" --prompts prompts.jsonl -q
kvcal calibrate "$@" -o whole.json --stats whole.kvstats
for i in 1 2 3; do kvcal calibrate "$@" --shard $i/3 --stats $i.kvstats; done
ls
kvcal merge 3.kvstats 1.kvstats 2.kvstats -o merged.kvstats
kvcal solve merged.kvstats -q -o merged.json
cmp whole.kvstats merged.kvstats && cmp whole.json merged.json && echo equal
kvcal merge 1.kvstats 3.kvstats -o two.kvstats || echo exit $?
kvcal merge 1.kvstats 3.kvstats 2.kvstats 3.kvstats -o four.kvstats || echo exit $?
kvcal solve 1.kvstats -o one.json || echo exit $?
kvcal merge 3.kvstats 1.kvstats 2.kvstats -o merged.kvstats || echo exit $?
ls
