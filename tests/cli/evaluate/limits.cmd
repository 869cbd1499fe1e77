set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 12 -q
kvcal calibrate "$@" -o scales.json
kvcal evaluate "$@" --scales scales.json --max-kl 0.01 --min-agreement 0.9 -o fine.json && echo fine
kvcal evaluate "$@" --max-kl 0.01 --min-agreement 0.95 -o broken.json || echo exit $?
test -s broken.json && echo written
