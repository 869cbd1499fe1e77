# Scales of an MTP layer: there, missing, half, of other values, and under a name at which a server stops that drafts.
sh "$SOURCE/tests/cli/mtp_model.sh" glm4_moe
kvcal calibrate model --prompts prompts.jsonl -o without.json --policy absmax --no-sanity -q 2>/dev/null
kvcal calibrate model --prompts prompts.jsonl -o with.json --mtp --policy absmax --no-sanity -q 2>/dev/null
kvcal export with.json --model model --to vllm -o with >/dev/null
kvcal export without.json --model model --to vllm -o without >/dev/null
kvcal validate with.json --model model | tail -1
kvcal validate without.json --model model | grep "MTP\|V10"
kvcal validate with --scales with.json --server vllm | grep "V1\|^3"
kvcal validate without --server vllm | grep "V1"
sed 's/"n_mtp_layers": 1/"n_mtp_layers": 2/' with.json >two.json
kvcal validate two.json | head -1
tr '\n' '~' <with.json | sed 's/"index": 3,/"index": 4,/' | tr '~' '\n' >index.json
kvcal validate index.json | grep L03
