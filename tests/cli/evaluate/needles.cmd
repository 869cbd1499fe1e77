set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl"
kvcal evaluate "$@" --generate --max-new-tokens 4 --needles 160,120 --needle-depths 0,50,100 2>told | sed -n '/needles/,$p'
kvcal evaluate "$@" -q -o again.json --threads 1 --generate --max-new-tokens 4 --needles 120,160 --needle-depths 100,50,0
cmp evaluation.json again.json && grep -c '"needle 160 depth 50": {' again.json
