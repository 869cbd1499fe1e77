# The recipe of an evaluation: one layer stays in bf16, whatever the scale file calls the other; targets that keep no single layer refuse.
set -- --model "$SOURCE/datasets/demo/stressed"
kvcal calibrate "$2" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json
sed '/"key": {/,/"verdict"/ { s/"fp8": "[a-z]*"/"fp8": "keep16"/; s/"verdict": "[a-z]*"/"verdict": "inadequate"/ }' s.json >bad.json
kvcal evaluate "$2" --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 2 --scales bad.json --choose fp8_e4m3 --max-kl 1 -q -o all.json
sed 's/"index": 3, "format": "fp8_e4m3"/"index": 3, "format": "bf16"/' all.json >e.json
kvcal export bad.json "$@" -o out || echo exit $?
kvcal export bad.json "$@" -o out --recipe e.json | sed -n '1,/^- on/p'
grep -c "\"evaluation_sha256\": \"$(sha256sum e.json | cut -d' ' -f1)\"" out/kvcal-export.json
kvcal validate out | tail -1
kvcal export bad.json "$@" -o all --recipe all.json --to sglang | grep -A3 '^note'
for target in sglang sglang-json tgi; do kvcal export bad.json "$@" -o b --recipe e.json --to $target || echo exit $?; done
kvcal export bad.json "$@" -o b --recipe e.json --to scales --also-for "$2" || echo exit $?
kvcal export bad.json "$@" -o scales.json --recipe e.json --to json | head -1
grep layers_in_16_bits scales.json
kvcal export bad.json "$@" --dry-run --json --recipe e.json | tr -d " \n" | grep -o -e '"skip_layers":[^]]*]' -e '"evaluation_sha256"'
# What is no recipe for these scales.
kvcal export s.json "$@" -o b --recipe e.json || echo exit $?
sed '/"recipe"/,/^  }/ s/"fp8_e4m3"/"nvfp4"/' e.json >nvfp4.json
sed '/"recipe"/,/^  }/ s/"fp8_e4m3"/"bf16"/' e.json >none.json
sed 's/"weights_fingerprint": "../"weights_fingerprint": "00/' e.json >model.json
sed 's/"index": 7, "format"/"index": 6, "format"/' e.json >layers.json
kvcal evaluate "$2" --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 2 --scales bad.json -q -o without.json
head -c 1000 e.json >cut.json
for file in nvfp4 none model layers without cut nowhere s; do kvcal export bad.json "$@" -o b --recipe $file.json || echo exit $?; done
for flags in "--skip-layers keep16" --allow-keep16; do kvcal export bad.json "$@" -o b --recipe e.json $flags || echo exit $?; done
ls -d b 2>/dev/null || echo nothing written
