# Stopped in the middle of a run on a GPU: no half file, no temporary one.
for signal in INT KILL; do
  "$BUILD/tests/emulated/kvcal" calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q --device cuda --stats run.kvstats &
  sleep 1
  kill -$signal $!
  wait $! 2>/dev/null
  echo $?
done
ls -A
