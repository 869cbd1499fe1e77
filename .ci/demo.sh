#!/bin/sh
# demo.sh KVCAL: calibrates the two demo models and explains what comes out.
set -eu
kvcal=$1
out=build/demo
mkdir -p "$out"

for model in natural stressed; do
  echo
  echo "== datasets/demo/$model"
  "$kvcal" calibrate "datasets/demo/$model" --prompts datasets/demo/prompts.jsonl \
    -o "$out/$model.kv-cache-scales.json" --stats "$out/$model.kvstats" --force
  "$kvcal" validate "$out/$model.kv-cache-scales.json"
done

cat <<EOT

Why the answers differ
  Both models compute the same function. FP8 is a floating-point format: a scale changes nothing but the range it
  covers. Keys and values of the natural model lie inside that range at scale 1.0 as well: any scale will do. The
  stressed one has its keys and values multiplied by powers of two, and the inverse folded into the weights around
  them; at scale 1.0 some are clipped at 448 or flushed to zero, at the calibrated scales none is: needed. With these
  scales FP8 is fine for both.

What was written
  $out/*.kv-cache-scales.json    the scales; checked against schemas/kv-cache-scales.v1.schema.json
  $out/*.kvstats                 the statistics: other policies can be solved from them without the model

Next, with a model of your own (a Hugging Face checkpoint folder) and prompts like those it will serve
  $kvcal inspect MODEL                              what it caches, and whether it can be calibrated
  $kvcal prompts MODEL --prompts chats.jsonl        what it will be fed
  $kvcal calibrate MODEL --prompts chats.jsonl -o kv-cache-scales.json
EOT
