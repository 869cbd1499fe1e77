# Killed at once: what was under way stays hidden in the folder, and the next run there removes it, but nothing that a
# live one holds.
. "$(dirname "$0")/common.sh"

prompts=$source/datasets/demo/prompts.jsonl
$kvcal calibrate "$demo" --prompts "$prompts" --max-prompts 2 -q -o s.json || complain "no scales"

# Until one is caught with something under way.
left=
for nap in 0.02 0.04 0.06 0.01 0.03 0.05 0.08 0.1 0.15 0.2; do
  rm -rf out
  $kvcal export s.json --model "$demo" -o out --copy >/dev/null 2>&1 &
  pid=$!
  sleep $nap
  kill -9 $pid
  wait $pid 2>/dev/null
  left=$(find . -name '.kvcal-*.tmp' | head -n 1)
  [ -n "$left" ] && break
done
[ -n "$left" ] || skip "every export was through, or had not begun, when it was killed"
rm -rf out
$kvcal export s.json --model "$demo" -o out --copy >/dev/null ||
  complain "the export after it"
no_temporaries . "a killed export and the next one"

# One that is stopped in its work lives.
rm -rf out
$kvcal export s.json --model "$demo" -o out --copy >/dev/null 2>err.txt &
pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  left=$(find . -name '.kvcal-*.tmp' | head -n 1)
  [ -n "$left" ] && break
  sleep 0.01
done
kill -STOP $pid
held=$(find . -maxdepth 1 -name '.kvcal-*.tmp' | head -n 1)
$kvcal export s.json --model "$demo" -o other --copy >/dev/null || complain "the export beside it"
[ -z "$held" ] || [ -e "$held" ] || complain "took $held from a process that lives"
kill -CONT $pid
wait $pid || complain "disturbed: $(cat err.txt)"
[ -e out/model-kv-scales.safetensors ] || complain "no result of the one that was stopped"
no_temporaries . "two exports"
finish
