kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q -o run.json --stats run.kvstats
for n in 0 1 50 3000; do head -c $n run.json >cut.json; kvcal validate cut.json >out.txt; echo $? $(grep -c '^error A01' out.txt); done
