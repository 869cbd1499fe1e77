cp -r "$SOURCE/datasets/demo/stressed" m && chmod -R u+w m
kvcal calibrate m --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json --stats s.kvstats
mkdir elsewhere && echo secret >elsewhere/secret && ln -s ../elsewhere/secret m/notes.txt
kvcal fold m --stats s.kvstats -o out --no-check -q | grep outside
kvcal fold m --stats s.kvstats -o copied --copy --no-check -q | grep outside
