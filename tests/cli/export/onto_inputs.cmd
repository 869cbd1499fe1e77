# No export replaces what it reads, or deletes it with an earlier export.
cp -r "$SOURCE/datasets/demo/natural" m && chmod -R u+w m
kvcal calibrate m --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json
ln -s s.json also
for out in s.json also m/config.json m/model.safetensors; do kvcal export s.json --model m --to json -o $out --force; done
for out in s.json also m/config.json m/model.safetensors; do kvcal export s.json --model m --to scales --also-for m -o $out --force; done
kvcal export s.json --model m -o out >text && cp s.json out/mine.json
kvcal export out/mine.json --model m -o out --force
cmp s.json out/mine.json
