# No output of any verb replaces a file of a model, with --force or without, opened or not, under any of its names.
M=$SOURCE/datasets/demo/natural
cp -r "$M" m && chmod -R u+w m && mkdir m/original cache cache/blobs cache/snapshot
P="-p $SOURCE/datasets/demo/prompts.jsonl --max-prompts 2 -q"
kvcal calibrate "$M" $P -o s.json --stats run.kvstats
kvcal evaluate "$M" $P --scales s.json -o e.json
kvcal export s.json --model "$M" -o out >text
cp m/tokenizer.json cache/blobs/0 && ln -s ../blobs/0 cache/snapshot/tokenizer.json && cp m/config.json cache/snapshot
cd m
ln -s m/tokenizer.json ../symbolic && ln tokenizer_config.json ../hard && ln -s m ../also
echo '{{ messages }}' >chat_template.jinja && echo '#version: 0.2' >merges.txt && echo x >original/tokenizer.model
echo '{"producer": {}, "quantization": {}}' >hf_quant_config.json && echo '{"peft_type": "LORA"}' >adapter_config.json
echo '{"weight_map": {}}' >model.safetensors.index.json && printf 'GGUF\003' >m.gguf && printf 'PK\003\004  archive/data.pkl' >pytorch_model.bin
cp ../out/kvcal-export.json .
cd ..
files="$(find m -type f) also/merges.txt symbolic hard cache/snapshot/tokenizer.json"
n=0
try() {
  for out in $files; do
    n=$((n + 1))
    eval "kvcal $(echo "$1" | sed "s|@|$out|")" >text 2>error
    status=$?
    [ $status = 2 ] && [ "$(wc -l <error)" = 1 ] && [ ! -s text ] && grep -q "^kvcal: error: cannot write '$out': it is .*; choose another name" error ||
      echo "kvcal $1: $out: exit $status: $(cat error)"
    sed "s|^[^']*'[^']*': ||; s|'[^']*'|FOLDER|" error >>said
  done
}
before=$(find m cache -type f -exec sha256sum {} + | sort)
for force in '' --force; do
  for to in json lightllm ort-genai 'scales --also-for "$M"'; do try "export s.json --model \$M --to $to -o @ $force"; done
  try "solve run.kvstats -q -o @ $force"
  try "report run.kvstats -q -o @ $force"
  try "merge run.kvstats -q -o @ $force"
  try "evaluate \$M $P --scales s.json -o @ $force"
  for option in '-o @' '-o x --stats @' '-o x --evaluate @' '--shard 1/1 --stats @'; do try "calibrate \$M $P $option $force"; done
done
[ "$before" = "$(find m cache -type f -exec sha256sum {} + | sort)" ] && ls && LC_ALL=C sort -u said && echo "$n refused"
# What verbs wrote there may be replaced, and so may files elsewhere.
for out in m/kv-cache-scales.json m/run.kvstats m/e.json m/r.html m/x.json m/l.json elsewhere; do
  echo mine >elsewhere
  for force in '' --force; do
    case $out in
      *stats) kvcal merge run.kvstats -q -o $out $force ;;
      */e.json) kvcal evaluate "$M" $P --scales s.json -o $out $force ;;
      *html) kvcal report run.kvstats -q -o $out $force ;;
      */x.json) kvcal export s.json --model "$M" --to json -o $out $force >text ;;
      */l.json) kvcal export s.json --model "$M" --to lightllm -o $out $force >text ;;
      *) kvcal solve run.kvstats -q -o $out $force ;;
    esac || echo "$out $force: exit $?"
  done 2>&1
done
