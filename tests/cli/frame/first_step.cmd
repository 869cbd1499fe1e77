# 'kvcal' alone: the next command, by what lies here.
natural=$SOURCE/datasets/demo/natural
mkdir here other && ln -s "$natural"/* here/
(cd here && kvcal)
echo "--- with prompts of one name, beside the checkpoint"
cp "$SOURCE/datasets/demo/prompts.jsonl" 'my chats.jsonl'
kvcal
echo "--- with a scale file"
echo '{}' >kv-cache-scales.json
kvcal
echo "--- in it"
mv kv-cache-scales.json here
(cd here && kvcal)
echo "--- a class that is not read, and another checkpoint"
cd other
mkdir a b && echo '{"architectures": ["NobodysModel"]}' >a/config.json && ln -s "$natural"/* b/
kvcal
echo "--- some other program's config.json"
mkdir web && cd web && echo '{"port": 80}' >config.json
kvcal
# exits 2
