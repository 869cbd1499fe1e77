set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8
kvcal calibrate "$@" -q -o scales.json
kvcal evaluate "$@" --scales scales.json --choose fp8_e4m3,nvfp4,bf16 --max-kl 1 | grep -A2 recipe
kvcal evaluate "$@" -o none.json --scales scales.json --choose fp8_e4m3 --max-kl 0 | grep -A2 recipe
kvcal evaluate "$@" -q -o large.json --scales scales.json --choose fp8_e4m3 --max-kl 0 --max-bytes-per-token 600 || echo exit $?
