# Flags that do not go together, what is missing, and what is no such thing.
M=$SOURCE/datasets/demo/natural
echo "{}" >no.kvstats
for flags in "" "$M" "$M -o x" "$M --stats no.kvstats" "$M --stats no.kvstats -o x --balance row" \
  "$M --stats no.kvstats -o x --dtype int4" "$M --stats no.kvstats -o x --check --no-check" \
  "$M --stats no.kvstats -o x --threads -1" "$M --stats no.kvstats -o x" "$M --stats nowhere.kvstats -o x" \
  "nowhere --stats no.kvstats -o x" "$M --undo" "$M --undo -o x" "$M --undo -o x --stats no.kvstats" \
  "$M --undo -o x --balance head" "$M --undo -o x --threads 1" "$M --undo --dry-run" \
  "$M --undo -o x --no-check" "$M --undo -o x --adapter a" "$M --stats no.kvstats -o x --frobnicate"; do
  kvcal fold $flags || echo exit $?
done
ls
