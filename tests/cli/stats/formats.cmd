kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o run.json --stats run.kvstats >log
kvcal stats run.kvstats --formats
kvcal stats run.kvstats --json | grep -c '"nvfp4": 0\.\|"int4_per_row": 0\.'
# Rows of MLA have no INT4 cache.
echo '{"id": "a", "input_ids": [1, 2, 3, 4, 5, 6]}' >ids.jsonl
kvcal calibrate "$SOURCE/tests/arch/golden/deepseek_v3" --prompts ids.jsonl -q -o mla.json --stats mla.kvstats >log
kvcal stats mla.kvstats --formats
kvcal stats mla.kvstats --json | grep -c '"int4_per_row": null'
