kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json --stats s.kvstats
kvcal evaluate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 --scales s.json -q -o e.json
ln -s e.json also
for out in s.json e.json also; do kvcal report s.json --evaluation e.json -o $out --force; done
kvcal validate s.json >text && kvcal validate e.json >text && echo whole
