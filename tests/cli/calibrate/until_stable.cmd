# New prompts are drawn until they change little; the result is that of a run over these alone.
run() { kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" "$@" >out.txt 2>err.txt; grep -E 'stable with|not stable' err.txt; }
run --until-stable 20 -o drawn.json
n=$(grep -o '"n_prompts": *[0-9]*' drawn.json | head -n 1 | tr -dc 0-9)
run --max-prompts "$n" -o first.json
cmp drawn.json first.json
run --until-stable 0 --max-prompts 20 -o all.json
run --until-stable 0 --max-prompts 3 -o few.json
