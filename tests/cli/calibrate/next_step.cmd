# The command that follows is one that runs, and of a class that no server loads scales for what does instead.
D=$SOURCE/datasets/demo
prompts="--prompts $D/prompts.jsonl --max-prompts 8"
next() { grep -A 1 '^next:' | sed "s#$PWD#HERE#g; s#$SOURCE#SOURCE#g"; }
run() { sed -n 's/^  //p' next.txt | sed "s#SOURCE#$SOURCE#g" | sh >/dev/null 2>&1; }
cp -r "$D/stressed" stressed && cp -r "$D/natural" natural
kvcal calibrate natural $prompts -o n.json 2>/dev/null | next
kvcal calibrate ./stressed/ $prompts -o 's 1.json' --stats s.kvstats 2>/dev/null | next | tee next.txt
run && ls -d stressed*
kvcal calibrate stressed $prompts -o s.json 2>/dev/null | next
kvcal calibrate stressed-fp8kv $prompts -o t.json 2>/dev/null | next | tee next.txt
run && ls -d stressed*
echo '--- without the model'
kvcal solve s.kvstats -o u.json | next
echo '--- check'
kvcal calibrate ./stressed $prompts --limit-rel 0.03 -o c.json 2>/dev/null | next | tee next.txt
run && ls evaluation.json
kvcal calibrate ./stressed $prompts --limit-rel 0.03 -o d.json --evaluate e.json 2>/dev/null | next
echo '--- keep16'
kvcal calibrate ./stressed $prompts --limit-rel 0.026 -o k.json 2>/dev/null | next | tee next.txt
run && ls -d stressed*
echo '--- all of it keep16'
kvcal calibrate ./stressed $prompts --limit-rel 0.0001 -o r.json 2>/dev/null | grep -o -e 'leave the whole cache.*' -e '^next'
echo '--- no server loads them'
for i in 1 2 3; do echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i, 9$i]}"; done >ids.jsonl
kvcal calibrate "$SOURCE/tests/arch/golden/deepseek_v3" --prompts ids.jsonl --policy absmax -o l.json --stats l.kvstats 2>/dev/null | next
kvcal solve l.kvstats --policy absmax -o m.json 2>/dev/null | next
echo '--- another name in SGLang'
kvcal calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts ids.jsonl --policy absmax -o q.json 2>/dev/null | next
echo '--- no file, no format of a server'
kvcal calibrate natural $prompts -o - 2>&1 >/dev/null | next
kvcal calibrate ./stressed $prompts --dtype int8 -o i.json 2>/dev/null | next
