# The MTP layer's sites are on the page as such, from statistics and from a scale file.
sh "$SOURCE/tests/cli/mtp_model.sh" qwen3_next
kvcal calibrate model --prompts prompts.jsonl -o with.json --stats with.kvstats --mtp --no-sanity -q 2>/dev/null
kvcal report with.kvstats -q
grep -o ">mtp</th>" report.html | wc -l
grep -o "<li>MTP layer:.*" report.html
grep -o "<figcaption>MTP layer [a-z]*" report.html
grep -o "<title>MTP layer, head 1: [0-9]*" report.html
kvcal report with.json -q --force
grep -o ">mtp</th>" report.html | wc -l
kvcal calibrate model --prompts prompts.jsonl -o without.json --no-sanity -q 2>/dev/null
kvcal report without.json -q -o without.html
grep -ci ">mtp</th>\|MTP layer:" without.html
# exits 1
