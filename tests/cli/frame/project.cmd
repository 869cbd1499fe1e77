# kvcal.toml: five verbs read it, flags win, what is wrong has its line.
D="$SOURCE/datasets/demo"
cp "$D/prompts.jsonl" p.jsonl
write() { printf '%s\n' "$@" >kvcal.toml; }
write "model = '$D/stressed'" 'prompts = ["p.jsonl"]' 'policy = "absmax"' 'max-model-len = 2048' 'server = "vllm@0.33"' '[limits]' 'max-kl = 0.5' 'min-agreement = 0.1'
echo '--- alone'; kvcal 2>&1; echo "exit $?"
kvcal calibrate --max-prompts 6 -q
grep -e '"policy"' -e max_model_len kv-cache-scales.json
kvcal calibrate --max-prompts 6 -q --policy pow2 -o flag.json && grep '"policy"' flag.json
echo '--- again'; kvcal >out 2>&1; echo "exit $?"; grep -e stale -e 'next' -e '^  kvcal' out
kvcal calibrate -q --force; kvcal 2>/dev/null | tail -n 2
echo '--- others'
kvcal validate | tail -n 1; kvcal --color never validate | tail -n 1; kvcal validate flag.json | tail -n 1
kvcal export -o out-folder --dry-run | head -n 1
kvcal doctor --facts | grep -e '^ *model' -e '^ *server' | head -n 3
kvcal evaluate --max-prompts 2 -q; echo "exit $?"; kvcal evaluate --max-prompts 8 -q --max-kl 0 --force 2>&1 | grep limit; kvcal diff flag.json kv-cache-scales.json | tail -n 1
kvcal validate --list-rules | wc -l | grep -q '[0-9]' && kvcal calibrate --help | head -n 1
echo '--- wrong'
wrong() { write "$@"; kvcal validate 2>&1; }
wrong 'modle = "x"'; wrong 'model = "x"' 'prompts = [1]'; wrong 'model = true'; wrong '[limits]' 'kl = 1'; wrong 'limits = 1'
wrong 'model = "x' 'policy = 1'; wrong '[limits]' 'max-kl = "a"'; wrong 'x = 1979-05-27'; wrong 'prompts = []'
write 'policy = "abs"'; kvcal calibrate "$D/stressed" --dry-run
head -c 70000 /dev/zero | tr '\0' '#' >kvcal.toml; kvcal validate
rm kvcal.toml; mkdir kvcal.toml; kvcal validate
# exits 2
