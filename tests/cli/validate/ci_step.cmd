# The step that docs/ci.md shows for a plain shell, as it stands there.
sed -n '/<!-- shell step -->/,/<!-- end of shell step -->/p' "$SOURCE/docs/ci.md" | grep '^kvcal ' >step.sh
wc -l <step.sh | tr -d ' '
head -n 8 "$SOURCE/datasets/demo/prompts.jsonl" >prompts.jsonl
MODEL="$SOURCE/datasets/demo/stressed" PROMPTS=prompts.jsonl sh -eu step.sh || echo exit $?
ls
grep '"rule"' servers.json | sort -u
# A file that is not sound stops it, and so does a folder that does not hold its scales.
sed 's/"scale": 0\./"scale": 9./' kv-cache-scales.json >damaged.json
kvcal validate damaged.json --model "$SOURCE/datasets/demo/stressed" --strict >/dev/null || echo stopped
rm -r model-fp8kv kv-cache-scales.json
sed 's#^kvcal export.*#cp -r "$MODEL" model-fp8kv#' step.sh >forgotten.sh
MODEL="$SOURCE/datasets/demo/stressed" PROMPTS=prompts.jsonl sh -eu forgotten.sh >/dev/null || echo stopped too
