# Equal bytes whatever the runs, threads, batches and warm-ups; and solve gives what calibrate gave.
set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 9 -q
kvcal calibrate "$@" --threads 1 -o a.json --stats a.kvstats
kvcal calibrate "$@" --threads 3 --chunk-tokens 256 --warmup-passes 0 -o b.json --stats b.kvstats
cmp a.json b.json
cmp a.kvstats b.kvstats
kvcal solve a.kvstats -q -o c.json
cmp a.json c.json
for options in "--policy pow2" "--policy mse --granularity head" "--dtype int8 --policy kl" "--max-model-len 9000"; do
  kvcal calibrate "$@" $options -o d.json --stats d.kvstats --force
  kvcal solve d.kvstats -q $options -o e.json --force
  cmp d.json e.json && kvcal validate e.json
done
