# The demo models have no vision tower.
echo '{"text": "a", "image": "'"$SOURCE"'/tests/arch/pictures/images/grey.png"}' >p.jsonl
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl
# exits 2
