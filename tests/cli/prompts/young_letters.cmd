# Letters of Unicode 15 and 16, and a mark of Unicode 14 behind an older one: the ids of the reference library.
printf '{"id": "young", "text": "red \360\261\215\220\360\220\227\200a\314\200\341\253\212"}\n' >p.jsonl
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl --json
