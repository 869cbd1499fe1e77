# The surroundings change nothing: no home, odd languages, no network, no other program started.
. "$(dirname "$0")/common.sh"

prompts=$source/datasets/demo/prompts.jsonl
run="$kvcal calibrate $demo --prompts $prompts --max-prompts 3 --json"
strip() { grep -v -e '"seconds"' -e '"budget"' "$1"; }

$run -o s.json --stats s.kvstats >reference.txt 2>/dev/null || complain "the reference run"
mv s.json reference.json && mv s.kvstats reference.kvstats
same() {
  cmp -s s.json reference.json && cmp -s s.kvstats reference.kvstats || complain "other files $1"
  strip reference.txt >a.txt && strip out.txt >b.txt && cmp -s a.txt b.txt || complain "another output $1"
  rm -f s.json s.kvstats
}

env -i "$kvcal" calibrate "$demo" --prompts "$prompts" --max-prompts 3 --json -o s.json --stats s.kvstats \
  >out.txt 2>/dev/null || complain "without any environment"
same "without any environment"
HOME= LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8 LANGUAGE=tr TZ=Asia/Kolkata TMPDIR=/nowhere \
  $run -o s.json --stats s.kvstats >out.txt 2>/dev/null || complain "in German"
same "in German"
HOME=/nowhere LC_ALL=xx_YY.nothing TERM=xterm COLUMNS=1 $run -o s.json --stats s.kvstats >out.txt 2>/dev/null ||
  complain "in a language that does not exist"
same "in a language that does not exist"
LC_ALL=de_DE.UTF-8 $kvcal calibrate "$demo" --prompts "$prompts" --headroom 1.5 --max-prompts 1 -q -o h.json ||
  complain "a number on the command line in German"
grep -q '"headroom": 1.5' h.json || complain "1.5 was not read as 1.5"

if command -v strace >/dev/null 2>&1 && strace -o /dev/null true 2>/dev/null; then
  strace -f -o trace.txt -e trace=network,execve,fork,vfork $run -o s.json >/dev/null 2>&1
  [ "$(grep -c execve trace.txt)" -eq 1 ] || complain "started another program: $(grep execve trace.txt)"
  grep -E 'socket|connect|v?fork' trace.txt && complain "used the network, or forked"
else
  echo "not tried: no strace here"
fi
finish
