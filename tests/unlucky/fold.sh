# Folds on full disks, into folders that may not be written, stopped at any moment: no half folder, the model is as it
# was, and the same command goes on to the same bytes.
. "$(dirname "$0")/common.sh"

mkdir model && cp "$source"/datasets/demo/stressed/* model || exit 1
$kvcal calibrate model --prompts "$source/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json --stats run.kvstats ||
  complain "calibrating"
fold_to() { "$kvcal" fold model --stats run.kvstats "$@"; }
digest() { (cd "$1" && find . -type f | sort | xargs sha256sum | sha256sum); }
before=$(digest model)
nothing_left() {
  no_temporaries . "$1"
  [ "$(digest model)" = "$before" ] || complain "$1 changed the model"
  [ ! -e out ] || complain "$1: half a fold is there"
}

# A limit on the size of files: the shard is larger; nothing was finished that is worth going on from.
fails_with 2 "file too large" sh -c "ulimit -f 100; $kvcal fold model --stats run.kvstats -o out"
[ ! -e out.kvcal-partial ] || complain "nothing was finished, and its folder is there"
nothing_left "a file that is too large"

# Results that do not reach standard output are an error; the fold is whole.
fails_with 2 "cannot write to standard output" sh -c "$kvcal fold model --stats run.kvstats -o reference --json >/dev/full"
"$kvcal" fold reference --undo -o back >text && cmp -s back/model.safetensors model/model.safetensors ||
  complain "the fold whose text was lost is not whole"

# Little room for what functions keep on the stack: matrices do not belong there.
if ! "$kvcal" --version | grep -qi sanitize; then
  for kib in 64 128; do
    sh -c "ulimit -s $kib; exec $kvcal fold model --stats run.kvstats -o out" >text 2>err.txt ||
      complain "a stack of $kib KiB: $(cat err.txt)"
    diff -r out reference >diff.txt || complain "a stack of $kib KiB: another result: $(cat diff.txt)"
    rm -rf out out.kvcal-partial
  done
  nothing_left "a small stack"
fi

# Folders that cannot be written, and one that is not there.
fails_with 2 "cannot write '/proc/out'" fold_to -o /proc/out
fails_with 2 "does the folder exist?" fold_to -o nowhere/out
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null 2>&1; then
  chmod 755 "$scratch"
  as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
  if $as_user test -x "$kvcal"; then
    mkdir closed && chmod 555 closed
    fails_with 2 "permission denied" $as_user "$kvcal" fold model --stats run.kvstats -o closed/out
    [ -z "$(ls -A closed)" ] || complain "left in a folder that may not be written: $(ls -A closed)"
    mkdir open && chmod 777 open
    $as_user "$kvcal" fold model --stats run.kvstats -o open/out >text || complain "a fold of another's model"
    diff -r open/out reference >diff.txt || complain "another's model folds differently: $(cat diff.txt)"
  fi
fi
nothing_left "an ordinary user"

# A really full disk, and another file system than the model's.
mkdir small
if mount -t tmpfs -o size=1m tmpfs small 2>/dev/null; then
  clean_up() { umount "$scratch/small"; rm -rf "$scratch"; }
  fails_with 2 "is the disk full?" fold_to -o small/out
  [ -z "$(ls -A small)" ] || complain "left on the full disk: $(ls -A small)"
  # Room for the shard, and not for the rest: the shard stays, and is not written again.
  mount -o remount,size=2000k small
  fails_with 2 "is the disk full?" fold_to -o small/out
  [ ! -e small/out ] || complain "half a fold is on the full disk"
  mount -o remount,size=8m small
  fold_to -o small/out >text || complain "a fold onto another file system"
  diff -r small/out reference >diff.txt || complain "another file system: $(cat diff.txt)"
else
  echo "not tried: mounting a small tmpfs is not allowed here"
fi
nothing_left "another file system"

# Stopped at any moment; then the same command goes on.
n_resumed=0
for name in INT TERM KILL; do
  for nap in 0 0.01 0.02 0.03 0.05 0.1 0.2 0.4 0.8; do
    rm -rf out out.kvcal-partial
    "$kvcal" fold model --stats run.kvstats -o out --json >text 2>err.txt &
    pid=$!
    sleep $nap
    kill -$name $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ $name = KILL ] || no_temporaries . "$name after $nap s"
    if [ -e out ]; then
      diff -r out reference >diff.txt || complain "$name after $nap s: half a fold: $(cat diff.txt)"
      continue
    fi
    fold_to -o out --json >text 2>err.txt || complain "$name after $nap s: no going on: $(cat err.txt)"
    grep -q '"shards_resumed": 1' text && n_resumed=$((n_resumed + 1))
    diff -r out reference >diff.txt || complain "$name after $nap s: another result: $(cat diff.txt)"
    [ ! -e out.kvcal-partial ] || complain "$name after $nap s: the folder of finished shards is still there"
  done
done
echo "went on from a finished shard $n_resumed times"
[ $n_resumed -gt 0 ] || complain "no run was stopped behind a finished shard"
[ "$(digest model)" = "$before" ] || complain "a stopped run changed the model"

# Killed before the folder of finished shards says whose it is.
rm -rf out && mkdir out.kvcal-partial && : >out.kvcal-partial/.kvcal-1.tmp
fold_to -o out >text || complain "a folder of finished shards that holds none"
[ ! -e out.kvcal-partial ] || complain "the empty folder of finished shards is still there"

# Two at a time to one place: the second says so, and the first is whole.
rm -rf out && mkdir out.kvcal-partial
flock out.kvcal-partial sleep 2 &
sleep 0.5
fails_with 2 "is in use by another run" fold_to -o out
wait
rm -rf out.kvcal-partial
fold_to -o out >text || complain "a fold to a place that was in use"
diff -r out reference >diff.txt || complain "a place that was in use: $(cat diff.txt)"

# A change between the two runs: what was finished is of other weights, and is not used.
rm -rf out && mkdir out.kvcal-partial && echo other >out.kvcal-partial/change.txt
fails_with 2 "is from another fold that was interrupted" fold_to -o out
finish
