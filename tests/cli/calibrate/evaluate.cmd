set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8
kvcal calibrate "$@" -q -o scales.json --evaluate evaluation.json && test -s scales.json && test -s evaluation.json && echo both
kvcal evaluate "$@" -q --scales scales.json -o again.json && cmp evaluation.json again.json && echo the same
kvcal calibrate "$@" -q -o other.json --evaluate evaluation.json || echo exit $?
kvcal calibrate "$@" -q --evaluate third.json --dry-run || echo exit $?
