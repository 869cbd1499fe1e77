# A page that carries its files: validate checks them, and that the page shows them; whoever edits the page, a file in it, or cuts it is found out. The short summary for a pull request.
set -- --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 8 -q
kvcal calibrate "$SOURCE/datasets/demo/stressed" "$@" -o s.json --stats run.kvstats
kvcal evaluate "$SOURCE/datasets/demo/stressed" "$@" --scales s.json --floor --generate --max-new-tokens 4 --threads 1 -o e.json
kvcal report s.json --evaluation e.json --evidence
grep -o 'kvcal evaluate MODEL.*</code>' report.html
kvcal validate report.html --model "$SOURCE/datasets/demo/stressed" --strict
kvcal validate report.html --model "$SOURCE/datasets/demo/natural" | head -n 3
for edit in 's/the server must load/the server need not load/' 's/written by kvcal [0-9.]*/written by kvcal 7.0/' 's/base64,ewog/base64,!wog/' 's/base64,[A-Za-z0-9+/]*/base64,e30K/'; do sed "$edit" report.html | kvcal validate - 2>&1 | head -n 4; done
head -c 60000 report.html | kvcal validate - || echo exit $?
kvcal report s.json --evaluation e.json -o plain.html -q && kvcal validate plain.html || echo exit $?
kvcal validate report.html --stats run.kvstats || echo exit $?
kvcal report run.kvstats --evaluation e.json --evidence || echo exit $?
for flag in --evidence --markdown; do kvcal report s.json $flag -o x || echo exit $?; done
kvcal report s.json --evaluation e.json --markdown --evidence -o x || echo exit $?
kvcal report run.kvstats --evaluation e.json --markdown && sed 's/`[0-9a-f]*`/HASH/g' report.md
ls
