# The weights of an MTP layer take the powers of two that its cache needs, where statistics have it and the folder has one.
sh "$SOURCE/tests/cli/mtp_model.sh" glm4_moe
kvcal calibrate model --prompts prompts.jsonl -o without.json --stats without.kvstats --policy absmax --no-sanity -q 2>/dev/null
kvcal calibrate model --prompts prompts.jsonl -o with.json --stats with.kvstats --mtp --policy absmax --no-sanity -q 2>/dev/null
kvcal fold model --stats with.kvstats --force --dry-run | grep "MTP\|layers\.3"
kvcal fold model --stats with.kvstats --force -q -o folded | head -2
kvcal validate folded | grep X
kvcal validate with.json --model folded | head -2
kvcal calibrate folded --prompts prompts.jsonl --policy absmax -o again.json --mtp --no-sanity -v 2>/dev/null | grep "^  *mtp"
kvcal fold folded --undo -q -o original | head -1
cmp original/mtp.safetensors model/mtp.safetensors && cmp original/model.safetensors model/model.safetensors
kvcal fold model --stats without.kvstats --force --dry-run | grep "MTP\|layers\.3"
mkdir bare && cp model/config.json model/model.safetensors bare
kvcal fold bare --stats with.kvstats --force --dry-run | grep "MTP\|layers\.3"
# exits 1
