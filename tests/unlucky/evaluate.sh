# evaluate, stopped at any moment: no half file, and with --resume the next run ends in the same bytes, whichever part was
# stopped: the sweep, a recipe, answers.
. "$(dirname "$0")/common.sh"

prompts=$source/datasets/demo/questions.jsonl
$kvcal calibrate "$demo" --prompts "$prompts" -q -o scales.json || complain "calibrate"
question="$kvcal evaluate $demo --prompts $prompts --scales scales.json --choose fp8_e4m3,nvfp4 --max-kl 1e-4 --generate -q"
run="$question --max-new-tokens 24"

$run -o reference.json || complain "the reference run"

for nap in 0.3 1; do
  $run -o interrupted.json 2>err.txt &
  pid=$!
  sleep $nap
  kill -INT $pid 2>/dev/null
  wait $pid
  code=$?
  case $code in
    0) cmp -s interrupted.json reference.json || complain "after $nap s: ended with another result" ;;
    130) [ ! -e interrupted.json ] || complain "after $nap s: a file of a stopped run" ;;
    *) complain "after $nap s: exit code $code: $(cat err.txt)" ;;
  esac
  rm -f interrupted.json
  no_temporaries . "INT after $nap s"
done

# Killed again and again, a little later each time, so that the end is reached however slow the machine is.
rounds=0
while [ ! -e e.json ] && [ $rounds -lt 40 ]; do
  rounds=$((rounds + 1))
  $run -o e.json --resume 2>err.txt &
  pid=$!
  sleep "$(awk -v n=$rounds 'BEGIN { srand(n); print 0.1 + 0.1 * n * rand() }')"
  kill -KILL $pid 2>/dev/null
  wait $pid 2>/dev/null
  [ ! -e e.json ] || cmp -s e.json reference.json || complain "half a file after SIGKILL"
done
$run -o e.json --force --resume || complain "the last run: exit code $?"
echo "killed $rounds times"
cmp -s e.json reference.json || complain "another result after $rounds kills"
[ ! -e e.json.kvcal-resume ] || complain "the folder for going on is still there"

# Another question is another run, and says so.
$run -o f.json --resume 2>/dev/null &
pid=$!
while kill -0 $pid 2>/dev/null && ! ls f.json.kvcal-resume/answers/*.kvresume >/dev/null 2>&1; do sleep 0.05; done
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
if ls f.json.kvcal-resume/answers/*.kvresume >/dev/null 2>&1; then
  fails_with 2 "belongs to another run: max_new_tokens" $question -o f.json --resume --max-new-tokens 25
  [ ! -e f.json ] || complain "a file of a refused run"
else
  echo "not tried: the run ended before it could be killed"
fi

# No room for the result: one line. None for the rows of a run: only going on would begin earlier. Sizes are in blocks of
# 512 bytes.
fails_with 2 "cannot write 'g.json': file too large" sh -c "ulimit -f 4; $run -o g.json"
no_temporaries . "a failed run"
[ ! -e g.json ] || complain "half a file of a failed run"
sh -c "ulimit -f 400; $run -o g.json --resume" >out.txt 2>err.txt || complain "no room for --resume ended the run: $(cat err.txt)"
grep -q 'can be resumed only from an earlier layer' err.txt || complain "no warning that rows were not kept: $(cat err.txt)"
cmp -s g.json reference.json || complain "another result without room for rows"
finish
