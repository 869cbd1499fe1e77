# Options that would change nothing are refused, before any file is opened.
M=$SOURCE/datasets/demo/natural
n=0
try() {
  n=$((n + 1))
  kvcal "$@" >out 2>error
  status=$?
  cat error
  [ $status = 2 ] && [ ! -s out ] || echo "kvcal $*: exit $status"
}
for verb in solve report; do
  try $verb r.kvstats --policy percentile --headroom 3
  try $verb r.kvstats --policy mse --headroom 3
  try $verb r.kvstats --policy kl --percentile 50
  try $verb r.kvstats --percentile 50
done
try calibrate "$M" --policy kl --headroom 3
try calibrate "$M" --policy pow2 --percentile 99
try calibrate "$M" --shard 1/2 --stats s --headroom 3
try evaluate "$M" --max-new-tokens 4
try evaluate "$M" --stats r.kvstats --scales s.json
try prompts "$M" --ids --json
try stats r.kvstats --formats --json
try fold "$M" --stats r.kvstats -o o --no-check --threads 2
try inspect "$M" --identity --max-model-len 100
try launch "$M" --print slurm --image x
try launch "$M" --print mpi --claim x
try validate s.json --list-rules
try validate --list-rules --strict
try validate s.json --json --format sarif
try validate s.json --format github -v
try doctor --list server.log
try report r.kvstats -o - --force
try evaluate "$M" -o - --force
try export s.json --model "$M" --to json -o - --force
try doctor --list --gpu H100
try export --undo --model m s.json
try export --undo --model m --dry-run
try export --undo --model m --to sglang
kvcal calibrate "$M" -p "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json
try calibrate "$M" -o - --force
kvcal calibrate "$M" -p "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o - --stats r.kvstats --force >out
try solve r.kvstats -o - --force
try export s.json --model "$M" --to json -o x --replace-scales
try export s.json --model "$M" --to json -o x --allow-keep16
echo "$n refused"
