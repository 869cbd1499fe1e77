# What a vision tower made of a picture is measured, and counted; text alone is said to be text alone.
model="$SOURCE/tests/arch/golden/qwen3_vl"
pictures="$SOURCE/tests/arch/embeddings/qwen3_vl"
kvcal calibrate "$model" --prompts "$pictures/prompts.jsonl" --passes 1 -q -o pictures.json >/dev/null
grep encoder_tokens pictures.json
echo '{"id": "text", "input_ids": [1, 2, 3]}' >text.jsonl
kvcal calibrate "$model" --prompts text.jsonl --passes 1 -o text.json 2>&1 >/dev/null | grep images
grep encoder_tokens text.json
sed 's/picture.safetensors/gone.safetensors/' "$pictures/prompts.jsonl" >gone.jsonl
kvcal calibrate "$model" --prompts gone.jsonl
cp "$pictures/golden.safetensors" picture.safetensors
cp "$pictures/prompts.jsonl" other.jsonl
kvcal calibrate "$model" --prompts other.jsonl
kvcal generate "$model" --prompts "$pictures/prompts.jsonl" --max-new-tokens 6 --precision f32 --json | sed 's/,"text.*//'
