# Colors by meaning only where they are asked for: no file, no pipe has them otherwise.
escapes() { tr '\033' '@' | grep -o '@\[[0-9;]*m[a-z0-9]*:*' | sort | uniq -c; }
run() { kvcal "$@" calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --force; }
run 2>&1 | escapes
echo '--- always'
run --color always 2>/dev/null | escapes
NO_COLOR=1 kvcal calibrate none --color always 2>&1 | escapes
escapes <kv-cache-scales.json
echo '--- a terminal'
on_terminal() { script -qec "$1" /dev/null </dev/null; }
kvcal validate --list-rules >/dev/null
TERM=xterm on_terminal 'kvcal calibrate none' | escapes
TERM=dumb on_terminal 'kvcal calibrate none' | escapes
TERM=xterm NO_COLOR=1 on_terminal 'kvcal calibrate none' | escapes
TERM=xterm on_terminal 'kvcal calibrate none --color never' | escapes
kvcal --color red inspect none
# exits 2
