# Leaves a file alone that a run would write again, and says what made another run necessary.
cp "$SOURCE/datasets/demo/prompts.jsonl" p.jsonl
mkdir model && cp "$SOURCE"/datasets/demo/natural/* model/
run() {
  kvcal calibrate model --prompts p.jsonl --max-prompts 4 --if-changed "$@" 2>&1 >/dev/null | grep '^kvcal: .*\(up to date\|again\|error\)'
}
echo '--- there is none yet'; run
echo '--- nothing changed'; run; run --threads 1 --warmup-passes 0; cp kv-cache-scales.json first.json
touch -d 2001-01-01 kv-cache-scales.json model/*; run; find . -name kv-cache-scales.json -newermt 2002-01-01
kvcal calibrate model --prompts p.jsonl --max-prompts 4 --if-changed --json -q | grep '"changed"\|"scales"'
echo '--- prompts, and prompts that are not used'
sed -i 's/"content": "/&Please: /' p.jsonl; run; run; cmp -s first.json kv-cache-scales.json || echo 'another file'
echo '{"id": "zz", "text": "the last one by its id"}' >>p.jsonl; run
echo '--- options'; run --passes 1; run --passes 1 --policy pow2 --dtype int8; run --max-model-len 9000; run --limit-kl 0.5
run --no-sanity; run --max-length 64; run
echo '--- tokens alone'; sed -i "s/message\['role'\] }}/& says/" model/tokenizer_config.json; run; run
echo '--- weights'; cp "$SOURCE"/datasets/demo/stressed/model.safetensors model/; run; run
echo '--- config'; sed -i 's/"rms_norm_eps": 1e-06/"rms_norm_eps": 1e-05/' model/config.json; run
echo '--- statistics'; run --stats s.kvstats; run --stats s.kvstats; run --passes 1; run; run --stats s.kvstats; run --passes 1
run --stats s.kvstats; echo mine >s.kvstats; run --stats s.kvstats; cat s.kvstats
echo '--- edited by hand'; sed -i '0,/"scale": [0-9]/s//"scale": 7/' kv-cache-scales.json; run; run
echo '--- not ours'
echo mine >kv-cache-scales.json; run; cat kv-cache-scales.json; run --force; run
echo '--- not with'; run --shard 1/2 --stats t.kvstats; run --until-stable 1; run --evaluate e.json; run --dry-run
