set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --generate
kvcal evaluate "$1" --needles 100 || echo exit $?
kvcal evaluate "$@" --needles 100,100000 || echo exit $?
kvcal evaluate "$@" --needles 100,200,100 || echo exit $?
kvcal evaluate "$@" --needles 10 || echo exit $?
kvcal evaluate "$@" --needles 0 || echo exit $?
kvcal evaluate "$@" --needles 1e3 || echo exit $?
kvcal evaluate "$@" --needles 100 --needle-depths 50,101 || echo exit $?
kvcal evaluate "$@" --needle-depths 50 || echo exit $?
kvcal evaluate "$@" --needles 100 --max-prompts 3 || echo exit $?
kvcal evaluate "$@" --needles 100 --max-length 512 || echo exit $?
kvcal evaluate "$SOURCE/tests/arch/golden/qwen3" --generate --needles 100 || echo exit $?
echo '{"input_ids": [1, 2, 3]}' >ids.jsonl
kvcal evaluate "$1" --prompts ids.jsonl --generate --needles 100
# exits 2
