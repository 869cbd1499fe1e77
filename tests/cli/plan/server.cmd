# Which formats are planned, by server, version, GPU and kind of model, and why others are not.
plan() {
  echo "$*"
  kvcal plan "$@" 2>&1 | sed -n 's/^a token: *\(.*\), on each.*/\1/p;/^\(no \)\{0,1\}\(FP8\|NVFP4\|INT4\): /p;/error/p'
}
cd "$SOURCE/tests/arch/golden"
plan glm4_moe/config.json --gpu A100 --server vllm@0.28.0
plan glm4_moe/config.json --gpu A100
plan glm4_moe/config.json --gpu MI300X --server sglang
plan glm4_moe/config.json --gpu H100 --server vllm@0.19.0
plan glm4_moe/config.json --gpu H100 --server vllm@0.99
plan glm4_moe/config.json --gpu V100-SXM2-32GB
plan deepseek_v3/config.json --gpu A100
plan glm4_moe/config.json --gpu H100 --server lmdeploy
