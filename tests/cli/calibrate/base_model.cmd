# Without a chat template the shipped chats are raw text; a second run finds nothing changed.
mkdir model
cp "$SOURCE/datasets/demo/natural/"*.json "$SOURCE/datasets/demo/natural/model.safetensors" model
chmod -R u+w model
sed 's/"chat_template"/"unused"/' model/tokenizer_config.json >without && mv without model/tokenizer_config.json
kvcal calibrate model --max-prompts 2 --dry-run 2>&1 | grep 'chat template'
kvcal calibrate model --max-prompts 2 -q -o s.json 2>/dev/null
kvcal calibrate model --max-prompts 2 --if-changed -o s.json
kvcal launch model --max-prompts 2 --print slurm >/dev/null
