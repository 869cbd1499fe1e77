# Cut short, and not what the name says.
echo '{"text": "red"}' | gzip | head -c 20 >cut.jsonl.gz
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts cut.jsonl.gz
echo "exit $?" >&2
echo '{"text": "red"}' >plain.jsonl.zst
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts plain.jsonl.zst
# exits 2
