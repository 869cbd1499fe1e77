# No output replaces what the command reads, with --force.
cp -r "$SOURCE/datasets/demo/natural" m && chmod -R u+w m
head -n 2 "$SOURCE/datasets/demo/prompts.jsonl" >p.jsonl
kvcal calibrate m --prompts p.jsonl -q -o s.json --stats s.kvstats
cat m/* p.jsonl s.* | sha256sum >before
ln -s s.json also
for out in m/model.safetensors m/config.json p.jsonl s.json also s.kvstats; do
  kvcal evaluate m --prompts p.jsonl --scales s.json --stats s.kvstats --formats int8 -q -o $out --force
done
cat m/* p.jsonl s.* | sha256sum | cmp before -
