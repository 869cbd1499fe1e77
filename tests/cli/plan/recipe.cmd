# One of two layers stays in BF16: 512 + 256 bytes a token. With as much memory that is a third more tokens than all in BF16, and a third fewer than in FP8.
set -- "$SOURCE/datasets/demo/natural" --gpu-memory 1GiB --allowance 100MiB
kvcal evaluate "$1" --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 2 --choose fp8_per_token_head --max-kl 1 -q -o all.json
sed 's/"index": 3, "format": "fp8_per_token_head"/"index": 3, "format": "bf16"/; s/"index": 7, "format": "fp8_per_token_head"/"index": 7, "format": "fp8_e4m3"/; s/"bytes_per_token": 544/"bytes_per_token": 768/' all.json >e.json
kvcal plan "$@" --recipe e.json | sed -n -e '/^a token/p' -e '/^recipe/,/^context/p'
for recipe in e all; do kvcal plan "$@" --recipe $recipe.json --json | tr -d ' \n' | grep -o -e '"kv_bytes_per_token":{[^}]*}' -e '"tokens_per_gpu":{[^}]*}'; done
sed 's/"bytes_per_token": 768/"bytes_per_token": 770/' e.json >size.json
kvcal evaluate "$1" --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 2 -q -o without.json
for file in size without nowhere; do kvcal plan "$@" --recipe $file.json || echo exit $?; done
kvcal plan "$@" --recipe e.json --scales s.json || echo exit $?
