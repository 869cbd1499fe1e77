# An MTP layer is compared where file and statistics have it; where one of them has none, a line says so.
sh "$SOURCE/tests/cli/mtp_model.sh" qwen3_next
set -- model --prompts prompts.jsonl --no-sanity -q
kvcal calibrate "$@" -o without.json --stats without.kvstats 2>/dev/null
kvcal calibrate "$@" -o with.json --stats with.kvstats --mtp 2>/dev/null
kvcal drift with.json --stats with.kvstats | sed 's/  */ /g' | cut -d " " -f 1-4 | tail -5
kvcal drift with.json --stats with.kvstats --format prometheus | grep 'kvcal_drift_tokens{layer="mtp"'
kvcal drift with.json --stats without.kvstats | tail -1
kvcal drift without.json --stats with.kvstats | tail -1
kvcal drift with.json --stats without.kvstats with.kvstats | tail -1
