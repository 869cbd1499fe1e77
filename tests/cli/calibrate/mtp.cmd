# The cache of an MTP layer, from measuring to what servers load. All other numbers are those of a run without it.
sh "$SOURCE/tests/cli/mtp_model.sh" qwen3_next
mkdir bare && cp model/config.json model/model.safetensors bare
kvcal calibrate bare --prompts prompts.jsonl --mtp -q
kvcal inspect model | grep MTP
kvcal inspect model --json | grep mtp_layer
kvcal calibrate model --prompts prompts.jsonl -o without.json --policy absmax --no-sanity 2>&1 >/dev/null | grep MTP
kvcal calibrate model --prompts prompts.jsonl -o with.json --stats with.kvstats --mtp --policy absmax --no-sanity -v 2>/dev/null | grep "^ *mtp"
grep -c '"observations": 19' with.json
kvcal diff without.json with.json | head -2
kvcal solve with.kvstats --policy absmax -o again.json -q >/dev/null && cmp with.json again.json
kvcal validate with.json --model model | tail -1
kvcal export with.json --model model --to sglang -o served | grep "MTP"
COLUMNS=120 kvcal validate served | grep self_attn
kvcal export with.json --model model --to json -o plain.json | grep -c MTP
kvcal export with.json --model bare --to vllm -o other | grep MTP
