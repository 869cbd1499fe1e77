model="$SOURCE/tests/arch/activation/llama_fp8_token"
printf '{"input_ids": [3, 17, 42, 8, 77, 12, 9, 31]}\n{"input_ids": [90, 5, 60, 22]}\n' >p.jsonl
set -- "$model" --prompts p.jsonl --device cpu --policy absmax
kvcal calibrate "$@" -q -o plain.json --stats plain.kvstats >/dev/null
kvcal calibrate "$@" --emulate-activation-quant -o served.json --stats served.kvstats 2>&1 >/dev/null | grep rounded
grep -c activation_quant plain.json
grep activation_quant served.json
kvcal diff plain.json served.json | grep -e activation_quant -e absmax -e ' key '
kvcal merge plain.kvstats served.kvstats -o all.kvstats || echo exit $?
kvcal validate served.json && echo valid
kvcal solve served.kvstats -q --policy absmax -o again.json >/dev/null && cmp served.json again.json && echo the same
