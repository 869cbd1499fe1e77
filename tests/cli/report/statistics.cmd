kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o scales.json --stats run.kvstats >log

kvcal report run.kvstats
kvcal report run.kvstats --out again.html -q
cmp report.html again.html
grep -o '<section id="[a-z]*">' report.html
grep -c '<figcaption>layer' report.html
