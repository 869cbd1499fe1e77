# No line of a table is wider than the terminal, whatever verb prints it; at 80 columns no sentence is either.
D="$SOURCE/datasets/demo"
kvcal calibrate "$D/stressed" -p "$D/prompts.jsonl" --max-prompts 6 -q -o s.json --stats s.kvstats
kvcal calibrate "$D/natural" -p "$D/prompts.jsonl" --max-prompts 6 -q -o n.json --stats n.kvstats
kvcal export s.json --model "$D/stressed" -o served >/dev/null
printf '%s\n' '#!/bin/sh' 'export COLUMNS=$1; shift; "$@" >out 2>/dev/null' \
  "grep -e '[^ :]  *  ' out | wc -L | awk -v n=\$COLUMNS -v c=\"\$*\" '\$1 > n { print n \": \" \$1 \", \" c }'" >widest
for n in $(seq 40 59) $(seq 60 7 200) 80; do
  for c in 'solve s.kvstats -v -o x.json --force' 'stats s.kvstats' 'stats s.kvstats --formats' 'diff s.json n.json' \
    'drift n.json --stats s.kvstats' "inspect $D/stressed" "plan $D/stressed --gpu-memory 1GiB --allowance 10MiB" 'validate served' \
    'doctor --facts s.json'; do sh widest $n kvcal $c; done
done
for n in 40 61 80 137; do
  sh widest $n kvcal evaluate "$D/stressed" -p "$D/prompts.jsonl" --max-prompts 2 --scales s.json --per-layer --generate --max-new-tokens 4 --force
done
