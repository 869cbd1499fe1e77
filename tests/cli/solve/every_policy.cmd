kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o run.json --stats run.kvstats

for policy in absmax pow2 percentile mse kl; do
  for dtype in fp8_e4m3 fp8_e4m3fnuz int8; do
    for granularity in tensor head; do
      kvcal solve run.kvstats --policy $policy --dtype $dtype --granularity $granularity -q -o s.json --force
      kvcal validate s.json >findings || cat findings
      grep -q '"scale_per_head"' s.json && echo head
    done
  done
done | uniq -c | tr -s " "
