# The only way a time gets into the file; readable before hours of work.
export SOURCE_DATE_EPOCH=1700000000
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 1 -q
grep epoch kv-cache-scales.json && kvcal validate kv-cache-scales.json
SOURCE_DATE_EPOCH=yesterday kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 1 -q --force
# exits 2
