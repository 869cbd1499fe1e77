# No output replaces what the run reads, under whatever name, with --force.
cp -r "$SOURCE/datasets/demo/natural" m && chmod -R u+w m
head -n 2 "$SOURCE/datasets/demo/prompts.jsonl" >p.jsonl
ln -s p.jsonl symbolic && ln p.jsonl hard && ln -s m also
cat m/* p.jsonl | sha256sum >before
for out in m/model.safetensors ./m/config.json also/tokenizer.json m/tokenizer_config.json m/generation_config.json p.jsonl symbolic hard; do
  kvcal calibrate m --prompts p.jsonl -q -o $out --force
  kvcal calibrate m --prompts p.jsonl -q -o s.json --stats $out --force
  kvcal calibrate m --prompts p.jsonl -q -o s.json --evaluate $out --force
  kvcal calibrate m --prompts p.jsonl -q --shard 1/1 --stats $out --force
done 2>&1 | sort | uniq -c
cat m/* p.jsonl | sha256sum | cmp before - && ls
