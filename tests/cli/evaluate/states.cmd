set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 6
kvcal calibrate "$@" -q -o scales.json
kvcal evaluate "$@" --scales scales.json --undivided --state-dtype bf16,f16 --keep-recent 64 -o evaluation.json
kvcal evaluate "$@" --state-dtype bf16 --max-kl 0 -q -o limits.json || echo exit $?
kvcal evaluate "$@" --state-dtype bf16,f8 -o other.json || echo exit $?
kvcal evaluate "$@" --state-dtype int8_per_row --state-chunk 64 -q -o rows.json && grep -E '"state_chunk|"name": "state|"kl_slope' rows.json
for n in 5 8 20; do kvcal evaluate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts $n --precision f32 --state-dtype int8 --state-chunk 64 --force -o slope.json | tr -s '\n ' ' ' | grep -oE '[a-z ]*the KL grows[a-z ]*[,:]'; done
kvcal evaluate "$@" --state-dtype int8 --state-chunk -1 -o other.json || echo exit $?
kvcal evaluate "$@" --state-chunk 64 -o other.json || echo exit $?
kvcal evaluate "$@" --state-dtype bf16 --state-chunk 0 --max-kl 0.02 -o other.json || echo exit $?
kvcal evaluate "$@" --state-dtype bf16 --state-chunk 4000 --generate --min-agreement 0.9 -o other.json || echo exit $?
kvcal evaluate "$@" --state-dtype bf16 --state-chunk 0 --generate --max-new-tokens 2 -q -o answers.json && grep '"state_chunk' answers.json
