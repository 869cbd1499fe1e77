# For programs: the record's own members, and what was done. kvcal-fold.json has the same sites and tensors.
M=$SOURCE/datasets/demo/stressed
kvcal calibrate "$M" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 6 -q -o s.json --stats run.kvstats
kvcal fold "$M" --stats run.kvstats -o out --json >report.json
grep -E '^  "' report.json
grep -E '^    "' report.json | grep -v -E "sha256|fingerprint"
sed -n '/"tensors"/,/^    }/p; /"sites"/,/^    }/p' out/kvcal-fold.json
grep -E '^  "' out/kvcal-fold.json
kvcal fold out --undo -o back --json
