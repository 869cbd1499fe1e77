# Every form of file, and every kind of record.
cat >p.jsonl <<"END"
{"id": "text", "text": "red", "tags": ["a"], "weight": 2}
{"id": "chat", "messages": [{"role": "user", "content": "red"}], "tools": []}
{"id": "sharegpt", "conversations": [{"from": "human", "value": "red"}, {"from": "gpt", "value": "blue"}]}
{"id": "joined", "prompt": "red", "completion": " blue"}
{"id": "ids", "input_ids": [5, 6]}
END
echo '[{"id": "array", "text": "red"}, {"id": "second", "text": "blue"}]' >a.json
echo '{"id": "packed", "text": "red"}' | gzip >g.jsonl.gz
# {"id": "packed harder", "text": "red"} in zstd's format.
printf '\050\265\057\375\004\130\071\001\000\173\042\151\144\042\072\040\042\160\141\143\153\145\144\040\150\141\162' >z.jsonl.zst
printf '\144\145\162\042\054\040\042\164\145\170\164\042\072\040\042\162\145\144\042\175\012\023\071\061\022' >>z.jsonl.zst
printf 'red\nblue\n' | gzip >t.txt.gz
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl a.json g.jsonl.gz z.jsonl.zst t.txt.gz --json | sed 's/, *"input_ids".*//'
