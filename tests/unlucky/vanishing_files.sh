# Weights that go, shrink or grow while the program runs: one line and exit code 2, or the result of what was there.
. "$(dirname "$0")/common.sh"

prompts=$source/datasets/demo/prompts.jsonl

# Two shards, one of which is not there.
small_model sharded && mv sharded/model.safetensors sharded/model-00001-of-00002.safetensors
names=$(head -c 60000 sharded/model-00001-of-00002.safetensors | tr -dc '[:print:]' | grep -o '"model[^"]*"' | sort -u)
{
  printf '{"weight_map": {'
  for name in $names; do printf '%s: "model-00001-of-00002.safetensors", ' "$name"; done
  printf '"model.extra": "model-00002-of-00002.safetensors"}}'
} >sharded/model.safetensors.index.json
fails_with 2 "model-00002-of-00002.safetensors" $kvcal calibrate sharded --dry-run

# Deleted, after it was opened: the open file is still whole.
small_model deleted
$kvcal calibrate deleted --prompts "$prompts" --passes 8 -q -o deleted.json 2>err.txt &
pid=$!
sleep 0.3
rm deleted/model.safetensors
wait $pid
code=$?
if [ $code -eq 0 ]; then
  $kvcal calibrate "$demo" --prompts "$prompts" --passes 8 -q -o reference.json
  cmp -s deleted.json reference.json || complain "another result after the file was deleted"
else
  [ $code -eq 2 ] || complain "deleted while running: exit code $code"
  one_line err.txt "deleted while running"
fi

# Cut short at different moments: either too late to matter, or one line that names the file.
for nap in 0.01 0.02 0.05 0.1 0.2 0.5; do
  rm -rf cut s.json && small_model cut
  $kvcal calibrate cut --prompts "$prompts" --passes 8 -q -o s.json 2>err.txt &
  pid=$!
  sleep $nap
  : >cut/model.safetensors
  wait $pid
  code=$?
  case $code in
    0) ;;
    2)
      one_line err.txt "cut after $nap s"
      grep -q 'model.safetensors' err.txt || complain "cut after $nap s: does not name the file: $(cat err.txt)"
      [ ! -e s.json ] || complain "cut after $nap s: failed, but left a result"
      ;;
    *) complain "cut after $nap s: exit code $code: $(cat err.txt)" ;;
  esac
  no_temporaries . "a file cut after $nap s"
done

# Growing, overwritten, replaced: the result would be of neither content.
small_model growing
$kvcal calibrate growing --prompts "$prompts" --passes 4 -q -o g.json 2>err.txt &
pid=$!
sleep 0.3
for _ in 1 2 3 4 5; do head -c 1000000 /dev/zero >>growing/model.safetensors; done
wait $pid
code=$?
[ $code -eq 2 ] || complain "a growing file: exit code $code: $(cat err.txt)"
one_line err.txt "a growing file"
[ ! -e g.json ] || complain "a growing file: failed, but left a result"
for how in cp mv; do
  rm -rf changing && small_model changing && cp "$source/datasets/demo/stressed/model.safetensors" other
  $kvcal calibrate changing --prompts "$prompts" --passes 8 -q -o c.json --stats c.kvstats 2>err.txt &
  pid=$!
  sleep 0.3
  $how other changing/model.safetensors
  wait $pid
  code=$?
  [ $code -eq 2 ] || complain "$how over weights in use: exit code $code: $(cat err.txt)"
  one_line err.txt "$how over weights in use"
  [ ! -e c.json ] && [ ! -e c.kvstats ] || complain "$how over weights in use: failed, but left a result"
done
fails_with 2 "has something been appended?" $kvcal calibrate growing --dry-run

# Prompts that go or are no regular file.
fails_with 2 "gone.jsonl" $kvcal calibrate "$demo" --prompts gone.jsonl -q
fails_with 2 "is not a regular file" $kvcal calibrate "$demo" --prompts /dev/zero -q
finish
