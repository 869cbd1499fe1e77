sed 's/Qwen3_5ForCausalLM/FooForCausalLM/' "$SOURCE/datasets/demo/natural/config.json" >config.json
kvcal plan config.json --gpu-memory 1GiB --allowance 100MiB --weights 2MiB --json | tr -d ' \n' >plan.json
for part in '"parameters":null' '"guessed":true' '"architecture":"FooForCausalLM"' '"kv_bytes_per_token":{"bf16":1024,' '"assumptions":[{"name":"guess"'; do
  grep -qF "$part" plan.json || echo "not there: $part"
done
