# Exports on full disks, into folders that may not be written, stopped at any moment: nothing half-written, and the
# model's own folder is either as it was or whole in its new form.
. "$(dirname "$0")/common.sh"

small_model model
$kvcal calibrate model --prompts "$source/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json ||
  complain "calibrating"
export_to() { "$kvcal" export s.json --model model "$@"; }
digest() { (cd "$1" && find . -type f | sort | xargs sha256sum | sha256sum); }
before=$(digest model)
nothing_left() {
  no_temporaries . "$1"
  [ "$(digest model)" = "$before" ] || complain "$1 changed the model"
}

# A limit on the size of files: the copied tokenizer is larger.
fails_with 2 "file too large" sh -c "ulimit -f 8; $kvcal export s.json --model model -o out"
[ ! -e out ] || complain "half an export is there"
nothing_left "a file that is too large"
fails_with 2 "file too large" sh -c "ulimit -f 1; $kvcal export s.json --model model --in-place"
nothing_left "a file that is too large, in place"

# Results that do not reach standard output are an error; the export is whole.
fails_with 2 "cannot write to standard output" sh -c "$kvcal export s.json --model model -o full --json >/dev/full"
[ -e full/config.json ] || complain "the export is missing"

# A folder that cannot be written, and one that is not there.
fails_with 2 "cannot write '/proc/out'" export_to -o /proc/out
fails_with 2 "does the folder exist?" export_to -o nowhere/out
nothing_left "a folder that cannot be written"
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null 2>&1; then
  chmod 755 "$scratch"
  as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
  if $as_user test -x "$kvcal"; then
    mkdir closed && chmod 555 closed
    fails_with 2 "permission denied" $as_user "$kvcal" export s.json --model model -o closed/out
    fails_with 2 "permission denied" $as_user "$kvcal" export s.json --model model --in-place
    # Of another owner's files there are symbolic links where the system forbids hard ones.
    mkdir open && chmod 777 open
    $as_user "$kvcal" export s.json --model model -o open/out >text || complain "an export of another's model"
    $as_user "$kvcal" validate s.json --model open/out >text || complain "another's model reads back differently"
  fi
fi
nothing_left "an ordinary user"

# A really full disk, and another file system than the model's.
mkdir small
if mount -t tmpfs -o size=24k tmpfs small 2>/dev/null; then
  clean_up() { umount "$scratch/small"; rm -rf "$scratch"; }
  fails_with 2 "is the disk full?" export_to -o small/out
  [ -z "$(ls -A small)" ] || complain "left on the full disk: $(ls -A small)"
  mount -o remount,size=8m small
  export_to -o small/out >text || complain "an export onto another file system"
  [ -L small/out/model.safetensors ] || complain "the weights are not linked by name"
  export_to -o small/copy --copy >text || complain "a copy onto another file system"
  [ ! -L small/copy/model.safetensors ] || complain "--copy linked"
  # The root of a file system cannot change places with another folder.
  rm -rf small/out small/copy && cp model/* small
  fails_with 2 "" "$kvcal" export s.json --model small --in-place
  cmp -s small/config.json model/config.json || complain "a mounted model was changed"
  rm -f small/*
else
  echo "not tried: mounting a small tmpfs is not allowed here"
fi
nothing_left "another file system"

# Stopped at any moment.
export_to -o reference --copy >text
for name in INT TERM; do
  for nap in 0 0.005 0.01 0.02 0.03 0.05 0.1; do
    rm -rf out
    "$kvcal" export s.json --model model -o out --copy >text 2>err.txt &
    pid=$!
    sleep $nap
    kill -$name $pid 2>/dev/null
    wait $pid
    [ ! -e out ] || diff -r out reference >diff.txt || complain "$name after $nap s: half an export: $(cat diff.txt)"
    nothing_left "$name after $nap s"
  done
done
for nap in 0 0.005 0.01 0.02 0.03 0.05 0.1; do
  "$kvcal" export s.json --model model --in-place >text 2>err.txt &
  pid=$!
  sleep $nap
  kill -INT $pid 2>/dev/null
  wait $pid
  if [ -e model/kvcal-export.json ]; then
    "$kvcal" validate s.json --model model >text || complain "in place, INT after $nap s: $(cat text)"
    "$kvcal" export --undo --model model >text || complain "in place, INT after $nap s: no way back"
  fi
  nothing_left "in place, INT after $nap s"
done
finish
