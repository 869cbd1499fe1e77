# A model of latent rows through all verbs: going on is safe to ask for, shards merge to the whole, scales are solved again.
for i in 1 2 3; do echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i, 9$i]}"; done >prompts.jsonl
for name in deepseek_v3 kimi_linear; do
  model="$SOURCE/tests/arch/golden/$name"
  set -- "$model" --prompts prompts.jsonl -q
  kvcal calibrate "$@" -o whole.json --stats whole.kvstats --resume --force
  ls
  for i in 1 2; do kvcal calibrate "$@" --shard $i/2 --stats $i.kvstats --force; done
  kvcal merge 2.kvstats 1.kvstats -o merged.kvstats -q --force
  kvcal solve merged.kvstats -q -o solved.json --force
  cmp whole.kvstats merged.kvstats && cmp whole.json solved.json && echo equal
  kvcal stats merged.kvstats | head -n 5
  kvcal solve merged.kvstats -q --policy absmax -o absmax.json --force
  kvcal diff whole.json solved.json
  kvcal diff whole.json absmax.json --tolerance 1000 || echo exit $?
  kvcal validate whole.json --model "$model" | tail -n 1
done
