kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o run.json --stats run.kvstats

# The model's contexts are longer than what was measured; policies that look at the measured keys alone say so.
for policy in absmax percentile; do kvcal solve run.kvstats --policy $policy --force | grep rotation; done
kvcal solve run.kvstats --policy kl --max-model-len 2024 --force | grep rotation
# exits 1
