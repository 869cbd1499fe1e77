# Each is refused in one line, before anything runs.
refused() { kvcal evaluate "$@" || echo exit $?; }
D=$SOURCE/datasets/demo
P=$D/prompts.jsonl
refused
refused model --josn
refused nowhere
refused "$D/natural" --scales nowhere.json
refused "$D/natural" --choose fp8_e4m3
refused "$D/natural" --min-correct 0.5
refused "$D/stressed" --keep-recent -1
refused "$D/natural" --generate --max-new-tokens 0
refused "$D/natural" --threads -1
refused "$D/stressed" --undivided
refused "$D/natural" --precision f16
refused "$D/natural" --attention vllm@0.33.0:FLASHINFER
refused "$D/natural" --attention sglang@0.5.22:triton
refused "$D/natural" --attention sglang@0.5.23:triton --query
refused "$D/natural" --formats fp9 --prompts "$P" --max-prompts 1 -q
refused "$D/natural" --formats int8 --prompts "$P" --max-prompts 1 -q
refused "$D/natural" --formats nvfp4_affine --prompts "$P" --max-prompts 1 -q
refused "$D/natural" --prompts "$P" --memory 1MiB -q
refused "$D/natural" --prompts "$P" --max-prompts 2 -q --generate --min-correct 0.5
echo '{"input_ids": [1, 2, 3]}' >ids.jsonl
refused "$SOURCE/tests/arch/golden/qwen3" --prompts ids.jsonl --state-dtype bf16 -q
refused "$SOURCE/tests/arch/golden/deepseek_v3" --prompts ids.jsonl --attention sglang@0.5.23:triton -q
set -- --prompts "$P" --max-prompts 2 -q
kvcal calibrate "$D/stressed" "$@" -o scales.json --stats run.kvstats
refused "$SOURCE/tests/arch/golden/qwen3" --scales scales.json
refused "$D/natural" "$@" --stats run.kvstats --formats int8
refused "$D/stressed" "$@" --scales scales.json --formats int8_per_head
cp -r "$D/natural" model
sed "s/Qwen3_5ForCausalLM/FooForCausalLM/" "$D/natural/config.json" >model/config.json
refused model --prompts "$P" --max-prompts 2
