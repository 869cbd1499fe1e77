# Runs over different prompts: the result says how far it is exact, and its scale file is a valid one.
for i in 1 2 3 4; do echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i]}"; done >all.jsonl
head -n 2 all.jsonl >a.jsonl
tail -n 2 all.jsonl >b.jsonl
for set in a b all; do kvcal calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts $set.jsonl -q -o $set.json --stats $set.kvstats; done
kvcal merge b.kvstats a.kvstats -o ba.kvstats --json
kvcal merge a.kvstats b.kvstats -o ab.kvstats -q
cmp ab.kvstats ba.kvstats && echo equal
kvcal solve ab.kvstats -q -o ab.json
kvcal validate ab.json
grep -c '"exact_passes": 1' ab.json
kvcal merge a.kvstats all.kvstats -o x.kvstats || echo exit $?
