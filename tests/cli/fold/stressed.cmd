# Folded, the values of the stressed demo model need no scales; taken back, it is the same to the byte.
M=$SOURCE/datasets/demo/stressed P=$SOURCE/datasets/demo/prompts.jsonl
kvcal calibrate "$M" --prompts "$P" --max-prompts 6 -q -o s.json --stats run.kvstats
kvcal fold "$M" --stats run.kvstats -o out
for file in "$M"/*; do cmp -s "$file" "out/${file##*/}" || echo "changed: ${file##*/}"; done
kvcal calibrate out --prompts "$P" --max-prompts 6 -v -o again.json 2>errors | grep -E '^ .*(key|value)' | awk '{ print $1, $2, $(NF - 1), $NF }'
kvcal fold out --undo -o back
diff -r "$M" back && echo the same
kvcal fold out --stats run.kvstats -o twice || echo exit $?
kvcal fold "$M" --stats run.kvstats -o copied --copy --no-check --balance channel >text && grep -c "not checked" text
kvcal validate copied --server vllm | tail -n 1
