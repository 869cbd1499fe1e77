# Forms that name no server of ours say what they name; a compose file is one, with its image's version; options alone are taken.
kvcal doctor --command 'trtllm-serve X --kv_cache_dtype fp8'
cat >docker-compose.yml <<'END'
services:
  vllm:
    image: vllm/vllm-openai:v0.17.1
    command: --model Qwen/Qwen3.5-35B-A3B --kv-cache-dtype fp8 --calculate-kv-scales
END
kvcal doctor docker-compose.yml | head -5
sed 's/vllm/nginx/g' docker-compose.yml >nginx.yml
kvcal doctor nginx.yml
kvcal doctor --command '--model X --kv-cache-dtype fp8' | head -2
kvcal doctor --server sglang --command '--model-path X --kv-cache-dtype fp8' | grep fix:
