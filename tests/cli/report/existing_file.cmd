kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o scales.json --stats run.kvstats >log

echo mine >report.html
kvcal report scales.json
cat report.html
kvcal report scales.json --force -q
head -n 1 report.html
