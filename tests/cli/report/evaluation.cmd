# A page with what an evaluation found, whether it knows the scales by their file or by the statistics that give them; one of other weights or scales, one that is broken, and one that would be overwritten are refused.
set -- --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 2 -q
kvcal calibrate "$SOURCE/datasets/demo/stressed" "$@" -o s.json --stats run.kvstats
kvcal evaluate "$SOURCE/datasets/demo/stressed" "$@" --scales s.json --per-layer --choose fp8_e4m3 --max-kl 1 --generate --max-new-tokens 4 -o e.json
for from in s.json run.kvstats; do kvcal report $from --evaluation e.json -o $from.html -q && grep -o -e '<section id="evaluation">' -e '<h3>[LA][a-z]*' -e '<figcaption>swapped' -e '<strong>Recipe' -e 'file <strong>(these scales)' -e 'The evaluation compared answers: with these scales all 2' $from.html; done
kvcal report run.kvstats --policy absmax --evaluation e.json -o absmax.html -q && grep -c 'known to have the scales of this page' absmax.html
sed 's/"key": {/"key":  {/' s.json >other.json
sed 's/"weights_fingerprint": "../"weights_fingerprint": "00/' e.json >model.json
sed 's/"n_prompts": 2/"n_prompts": 3/' e.json >broken.json
kvcal report other.json --evaluation e.json -o x.html || echo exit $?
for e in model broken nowhere; do kvcal report s.json --evaluation $e.json -o x.html || echo exit $?; done
kvcal report s.json --evaluation e.json -o e.json --force || echo exit $?
ls x.html 2>/dev/null || echo nothing written
