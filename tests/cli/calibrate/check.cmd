# --check: 1 and the reason where --if-changed would calibrate, 0 where it would not; nothing is written.
cp "$SOURCE/datasets/demo/prompts.jsonl" p.jsonl
run() {
  kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts p.jsonl --max-prompts 3 "$@" 2>&1
  echo "exit $?"
}
run --check
run -q
cp kv-cache-scales.json first.json
run --check; run --check --json; run --check -q
run --check --passes 1; run --check --passes 1 --json; run --check --stats s.kvstats
sed -i 's/"content": "/&Please: /' p.jsonl; run --check
sed -i '0,/"scale": 1/s//"scale": 7/' kv-cache-scales.json; run --check
echo mine >kv-cache-scales.json; run --check; cat kv-cache-scales.json
echo '--- not with'
for option in --if-changed --dry-run --force --resume '--shard 1/2' '--until-stable 1' '--evaluate e.json' '-o -'; do
  run --check $option | grep error
done
ls
