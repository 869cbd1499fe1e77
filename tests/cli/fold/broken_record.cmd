# A record that is broken or belongs elsewhere: one line from who needs it, findings from validate.
D=$SOURCE/datasets/demo
kvcal calibrate "$D/stressed" --prompts "$D/prompts.jsonl" --max-prompts 6 -q -o s.json --stats run.kvstats
kvcal fold "$D/stressed" --stats run.kvstats -o out >text
cp out/kvcal-fold.json record
broken() {
  echo "== $1"
  kvcal fold out --undo -o back || echo exit $?
  kvcal validate out --server vllm | grep -E "^error|valid,"
}
head -c 300 record >out/kvcal-fold.json
broken "cut off"
echo '{"format": "kvcal-fold", "version": "1.0"}' >out/kvcal-fold.json
broken "empty"
echo '{"format": "kvcal-fold", "version": "9.0"}' >out/kvcal-fold.json
broken "of another version"
sed 's/"model": {/"mode": {/' record >out/kvcal-fold.json
broken "of nobody's weights"
sed 's/layers.7.self_attn.v_proj/layers.8.self_attn.v_proj/' record >out/kvcal-fold.json
broken "of a tensor that is not there"
sed 's/"lines": 256/"lines": 257/' record >out/kvcal-fold.json
broken "of other columns"
sed 's/\[0, 256\]/[0, 257]/' record >out/kvcal-fold.json
broken "of more columns than there are"
kvcal inspect out | grep folded
kvcal calibrate out --prompts "$D/prompts.jsonl" -q -o again.json || echo exit $?
ls
