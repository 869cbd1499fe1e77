# SGLang keeps F32 and five slots of this class: 537,600 bytes. Then a type and a number of slots that are given, drafts that need
# slots of their own, and what is refused.
plan() { kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 200MiB --allowance 100MiB "$@"; }
plan --server sglang@0.5.23 | grep ^state:
plan --state-dtype fp8 --state-slots 1 --context 2048 | grep -E -A5 "^state"
plan --server vllm@0.25.1 | grep ^state:
# vLLM computes in bfloat16 where the checkpoint is in float32.
sed 's/"dtype": "bfloat16"/"dtype": "float32"/' "$SOURCE/datasets/demo/natural/config.json" >config.json
kvcal plan config.json --weights 2MiB --gpu-memory 200MiB --allowance 100MiB | grep ^state:
plan --state-dtype fp4
plan --state-slots 0
plan --server llama.cpp
for option in "--state-dtype bf16" "--state-slots 2"; do
  kvcal plan "$SOURCE/tests/arch/golden/glm4_moe/config.json" --gpu-memory 4GB $option
done
# exits 2
