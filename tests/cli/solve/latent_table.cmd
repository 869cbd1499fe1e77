# The parts of a latent row have a line each below it.
echo '{"id": "a", "input_ids": [3, 7, 11, 13, 21]}' >prompts.jsonl
kvcal calibrate "$SOURCE/tests/arch/golden/deepseek_v3" --prompts prompts.jsonl --no-sanity -q -o run.json --stats run.kvstats
COLUMNS=160 kvcal solve run.kvstats -v | sed -n '3,8p'
