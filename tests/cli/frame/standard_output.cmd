# "-o -" is standard output: the file alone, byte for byte; what else is to be said goes to standard error.
M=$SOURCE/datasets/demo/natural
set -- -p "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2
kvcal calibrate "$M" "$@" -q -o s.json --stats run.kvstats
kvcal evaluate "$M" "$@" -q --scales s.json -o e.json
kvcal report run.kvstats -q -o r.html
kvcal export s.json --model "$M" --to json -o x.json >/dev/null
kvcal export s.json --model "$M" --to scales --also-for "$M" -o x.scales >/dev/null
same() { cmp - "$1" && echo "as $1"; }
kvcal calibrate "$M" "$@" -o - 2>log | same s.json
grep -c -e '^every scale' -e 'standard output sha256' log
kvcal calibrate "$M" "$@" -q -o - | same s.json
kvcal solve run.kvstats -o - 2>log | same s.json
grep -c '^every scale' log
kvcal evaluate "$M" "$@" --scales s.json -o - 2>log | same e.json
grep -c 'same top token  perplexity' log
kvcal evaluate "$M" "$@" -q --scales s.json -o - --json | same e.json
kvcal report run.kvstats -o - 2>log | same r.html
kvcal export s.json --model "$M" --to json -o - 2>log | same x.json
kvcal export s.json --model "$M" --to scales --also-for "$M" -o - | same x.scales
kvcal solve run.kvstats -o - -q | kvcal validate -
exec 2>&1
kvcal solve run.kvstats -o - --json
kvcal calibrate "$M" "$@" -q -o - --if-changed
kvcal calibrate "$M" "$@" -q -o - --resume
kvcal calibrate "$M" "$@" -q -o - --evaluate e2.json
kvcal calibrate "$M" "$@" -q -o s2.json --stats -
kvcal calibrate "$M" "$@" -q -o s2.json --evaluate -
kvcal evaluate "$M" "$@" -q -o - --resume
kvcal merge run.kvstats -o -
kvcal export s.json --model "$M" -o -
kvcal export s.json --model "$M" --to json -o - --json
kvcal fold "$M" --stats run.kvstats -o - --force -q
kvcal launch "$M" --print slurm -o -
ls
