set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 12
kvcal calibrate "$@" -q -o scales.json --stats s.kvstats
kvcal evaluate "$@" --scales scales.json scales.json --stats s.kvstats --formats int8_per_head,int8_per_channel,fp8_e5m2,nvfp4,fp8_per_token_head,int4_per_token_head,fp8_e4m3:nvfp4,nvfp4_affine:nvfp4_rotated --per-layer
kvcal evaluate "$@" -q --scales scales.json --json -o twice.json >printed.json && cmp printed.json twice.json && echo the same
