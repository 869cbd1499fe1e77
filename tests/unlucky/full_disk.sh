# No room for an output: one line, exit code 2, neither half file nor temporary one.
. "$(dirname "$0")/common.sh"

prompts=$source/datasets/demo/prompts.jsonl
run="$kvcal calibrate $demo --prompts $prompts --max-prompts 2 -q"

# A limit on the size of files, in blocks of 512 bytes: the artifact is some kilobytes, the statistics are more.
fails_with 2 "cannot write 'scales.json': file too large" sh -c "ulimit -f 2; $run -o scales.json"
fails_with 2 "cannot write 'run.kvstats': file too large" sh -c "ulimit -f 60; $run -o scales.json --stats run.kvstats"
[ ! -e scales.json ] && [ ! -e run.kvstats ] || complain "a file of a failed run is there"
no_temporaries . "a failed run"

# What was there stays.
echo old >scales.json
fails_with 2 "file too large" sh -c "ulimit -f 2; $run -o scales.json --force"
[ "$(cat scales.json)" = old ] || complain "--force lost the old file although the new one was not written"

# Results that do not reach standard output are lost: an error, although the file is written.
fails_with 2 "cannot write to standard output" sh -c "$run -o a.json --json >/dev/full"
fails_with 2 "cannot write to standard output" sh -c "$kvcal inspect $demo --json >/dev/full"
fails_with 2 "cannot write to standard output" sh -c "$kvcal prompts $demo --json >/dev/full"
fails_with 2 "cannot write to standard output" sh -c "$kvcal validate a.json >&-"

# A disk that is really full.
mkdir small
if mount -t tmpfs -o size=28k tmpfs small 2>/dev/null; then
  clean_up() { umount "$scratch/small"; rm -rf "$scratch"; }
  fails_with 2 "is the disk full?" $run -o scales2.json --stats small/run.kvstats
  no_temporaries small "a full disk"
  [ ! -e small/run.kvstats ] || complain "half a file on the full disk"
  # With --resume the run ends well; only going on would begin earlier.
  mkdir small/out
  $run -o small/out/s.json --resume >out.txt 2>err.txt || complain "a full disk for --resume ended the run: $(cat err.txt)"
  grep -q 'can be resumed only from an earlier layer' err.txt || complain "no warning of the full disk: $(cat err.txt)"
  $run -o reference.json && cmp -s small/out/s.json reference.json || complain "another result on a full disk"
else
  echo "not tried: mounting a small tmpfs is not allowed here"
fi
finish
