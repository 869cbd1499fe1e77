# Stopped at any moment: no half file, no temporary one (but for SIGKILL), exit code 130; with --resume the next run ends
# in the same bytes.
. "$(dirname "$0")/common.sh"

prompts=$source/datasets/demo/prompts.jsonl
run="$kvcal calibrate $demo --prompts $prompts --passes 6 -q"

$run -o reference.json --stats reference.kvstats || complain "the reference run"

# The system's loader may still be at work, and no handler of TERM (signal 15) set up: on a busy machine for long.
early() {
  [ $handled = 0 ] && return 0
  case $nap in 0 | 0.0* | 0.1) return 0 ;; *) return 1 ;; esac
}

for name in INT TERM HUP; do
  for nap in 0 0.01 0.05 0.1 0.3 0.7 1.3; do
    rm -f s.json s.kvstats
    $run -o s.json --stats s.kvstats 2>err.txt &
    pid=$!
    sleep $nap
    caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' /proc/$pid/status 2>/dev/null)
    handled=$(((0x${caught:-0} >> 14) & 1))
    kill -$name $pid 2>/dev/null
    wait $pid
    code=$?
    case $code in
      0) cmp -s s.json reference.json || complain "$name after $nap s: ended with another result" ;;
      130)
        # Complete files may be there: the signal came between the two, or behind both.
        [ ! -e s.json ] || cmp -s s.json reference.json || complain "$name after $nap s: half a file"
        [ ! -e s.kvstats ] || cmp -s s.kvstats reference.kvstats || complain "$name after $nap s: half the statistics"
        grep -q '^kvcal: interrupted$' err.txt || early || complain "$name after $nap s: says $(cat err.txt)"
        ;;
      129 | 143) early || complain "$name after $nap s: exit code $code" ;;
      *) complain "$name after $nap s: exit code $code: $(cat err.txt)" ;;
    esac
    no_temporaries . "$name after $nap s"
  done
done

# Killed again and again, going on each time, until it is through.
rm -f s.json s.kvstats
rounds=0
while [ ! -e s.json ] && [ $rounds -lt 30 ]; do
  rounds=$((rounds + 1))
  $run -o s.json --stats s.kvstats --force --resume 2>err.txt &
  pid=$!
  # A little longer each time, so that the end is reached however slow the machine is.
  sleep "$(awk -v n=$rounds 'BEGIN { srand(n); print 0.02 + 0.08 * n * rand() }')"
  kill -KILL $pid 2>/dev/null
  wait $pid 2>/dev/null
  [ ! -e s.json ] || cmp -s s.json reference.json || complain "half a file after SIGKILL"
done
$run -o s.json --stats s.kvstats --force --resume || complain "the last run: exit code $?"
echo "killed $rounds times"
cmp -s s.json reference.json || complain "another artifact after $rounds kills"
cmp -s s.kvstats reference.kvstats || complain "other statistics after $rounds kills"
[ ! -e s.json.kvcal-resume ] || complain "the folder for going on is still there"
finish
