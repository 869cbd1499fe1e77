# Early and late in the run: no half file, no temporary one.
for nap in 0.3 1; do
  kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --passes 400 -q --stats run.kvstats &
  sleep $nap
  kill -INT $!
  wait $!
  echo $?
done
ls -A
