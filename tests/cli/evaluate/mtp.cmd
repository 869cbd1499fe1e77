# The MTP layer is no part of the model's predictions.
sh "$SOURCE/tests/cli/mtp_model.sh" qwen3_next
kvcal calibrate model --prompts prompts.jsonl -o without.json --no-sanity -q 2>/dev/null
kvcal calibrate model --prompts prompts.jsonl -o with.json --stats with.kvstats --mtp --no-sanity -q 2>/dev/null
kvcal evaluate model --scales with.json --prompts prompts.jsonl -o with.eval 2>&1 | grep MTP
kvcal evaluate model --scales without.json --prompts prompts.jsonl -q -o without.eval
grep -v sha256 with.eval >a
grep -v sha256 without.eval | cmp a -
kvcal evaluate model --stats with.kvstats --formats int8 --prompts prompts.jsonl -q -o third.eval
