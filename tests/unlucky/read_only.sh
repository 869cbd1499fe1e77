# A folder that may not be written, files that may not be read, outputs that exist.
. "$(dirname "$0")/common.sh"

prompts=$source/datasets/demo/prompts.jsonl
run="$kvcal calibrate $demo --prompts $prompts --max-prompts 2 -q"

fails_with 2 "cannot write '/proc/scales.json'" $run -o /proc/scales.json
fails_with 2 "does the folder exist?" $run -o nowhere/scales.json
touch r.json.kvcal-resume
fails_with 2 "cannot save the state of the run in 'r.json.kvcal-resume'" $run -o r.json --resume

# An ordinary user, since permissions do not bind root.
if [ "$(id -u)" -ne 0 ]; then
  as_user=
elif command -v setpriv >/dev/null 2>&1; then
  as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
  chmod 755 "$scratch"
  $as_user test -x "$kvcal" -a -r "$demo/config.json" 2>/dev/null || as_user=none
else
  as_user=none
fi
if [ "$as_user" = none ]; then
  echo "not tried: no way to become an ordinary user here"
else
  mkdir read_only && chmod 555 read_only
  fails_with 2 "cannot write 'read_only/s.json': permission denied" $as_user $run -o read_only/s.json
  fails_with 2 "permission denied" $as_user $run -o read_only/s.json --resume
  small_model unreadable && chmod 000 unreadable/model.safetensors
  fails_with 2 "model.safetensors': cannot open: permission denied" $as_user $kvcal calibrate unreadable --dry-run
  chmod 755 unreadable && chmod 000 unreadable/config.json
  fails_with 2 "config.json" $as_user $kvcal inspect unreadable
  chmod 000 unreadable
  fails_with 2 "unreadable" $as_user $kvcal inspect unreadable
fi

echo old >scales.json
fails_with 2 "exists; use --force to replace it" $run -o scales.json
[ "$(cat scales.json)" = old ] || complain "an existing file was replaced"
finish
