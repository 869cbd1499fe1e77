set -- "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 40
kvcal evaluate "$@" --floor -o floored.json && kvcal validate floored.json
kvcal evaluate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/questions.jsonl" "$SOURCE/datasets/demo/prompts.jsonl" --until-decided 0.001 -o decided.json 2>told | sed -n '/^shown/,/:$/p' && kvcal validate decided.json
grep until_decided decided.json
grep -c '"errors": \[' decided.json
kvcal evaluate "$@" --until-decided 0.1 --per-layer || echo exit $?
kvcal evaluate "$@" --until-decided 0.1 --max-kl 0.2 || echo exit $?
# What the last of three parts needs is said before the first runs.
awk 'BEGIN { for (i = 1; i <= 200; ++i) { printf "{\"input_ids\": [%d", i; for (j = 1; j < 200; ++j) printf ", %d", i * j * j % 97; print "]}" } }' >long.jsonl
memory() { kvcal evaluate "$SOURCE/datasets/demo/natural" --prompts long.jsonl --memory "$@" 2>&1 | sed 's/.* needs \([0-9]*\).* MiB of memory.*/\1/'; }
least=$(memory 1MiB --max-prompts 48 -q)
[ "$(memory $((least + 1))MiB --until-decided 100 -q -o part.json)" -gt "$least" ] && echo refused
echo '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}' >ids.jsonl
kvcal evaluate "$SOURCE/tests/arch/golden/deepseek_v3" --prompts ids.jsonl --floor -q -o absorbed.json && ! grep -A 12 '"floor"' absorbed.json | grep -q '"mean": 0,' && echo absorbed queries differ
