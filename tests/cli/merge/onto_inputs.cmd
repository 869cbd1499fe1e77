kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json --stats s.kvstats
ln s.kvstats hard
for out in s.kvstats ./s.kvstats hard; do
  kvcal merge s.kvstats -q -o $out --force
done
kvcal stats s.kvstats | head -n 1
