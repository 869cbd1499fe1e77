# A backbone saved alone: the head's tensor has a name that a rule skips.
cp -r "$SOURCE/tests/arch/golden/llama" model
LC_ALL=C sed -i 's/lm_head.weight/mtp.abc.weight/' model/model.safetensors
echo '{"id": "a", "input_ids": [3, 4, 5, 6, 7, 8, 9, 3, 5, 7]}' | kvcal calibrate model --prompts - -q
kvcal validate kv-cache-scales.json
