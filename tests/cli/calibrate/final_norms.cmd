# Without the sanity check the last norm is not needed, whatever its name; no warning says that nobody used it.
echo '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}' >ids.jsonl
for model in llama falcon_h1 nemotron_h lfm2; do
  kvcal calibrate "$SOURCE/tests/arch/golden/$model" --prompts ids.jsonl --no-sanity -q -o $model.json && ls $model.json
done
