# What is installed goes before tables; a Python that cannot be asked is one line.
mkdir -p site/vllm/config site/vllm/v1/attention/backends site/vllm/model_executor/models site/vllm-0.33.0.dist-info both/vllm both/sglang
printf 'Name: vllm\nVersion: 0.33.0\n' > site/vllm-0.33.0.dist-info/METADATA
printf 'import torch\nCacheDType = Literal["auto", "fp8"]\n' > site/vllm/config/cache.py
printf 'class AttentionBackendEnum(Enum):\n    FLASHINFER = "f"\n' > site/vllm/v1/attention/backends/registry.py
printf '_TEXT_MODELS = {"LlamaForCausalLM": ("llama", "Llama")}\n' > site/vllm/model_executor/models/registry.py
printf 'raise SystemExit("imported")\n' > site/vllm/__init__.py
printf 'raise SystemExit("of this folder")\n' > ast.py
PYTHONPATH=site kvcal doctor --installed python3 --facts
PYTHONPATH=site kvcal doctor --installed python3 --command 'vllm serve m --kv-cache-dtype nvfp4 --attention-backend flashinfer'
for python in ./no-python /bin/false /bin/true; do kvcal doctor --installed $python; done
kvcal doctor --installed python3
PYTHONPATH=both kvcal doctor --installed python3
PYTHONPATH=site kvcal doctor --installed python3 --server sglang
echo '--- an empty item is the current folder'
PYTHONPATH=site: kvcal doctor --installed python3 --facts | head -n 1
echo '--- versions'
mkdir -p later/vllm later/vllm-0.33.1.dist-info bare/vllm
printf 'Name: vllm\nVersion: 0.33.1\n' > later/vllm-0.33.1.dist-info/METADATA
PYTHONPATH=later kvcal doctor --installed python3 --server vllm@0.33 --facts | head -n 1
PYTHONPATH=bare kvcal doctor --installed python3 --server vllm@0.20.0 --facts | head -n 2
echo '--- other inputs'
printf 'SGLang version: 0.5.9\nserver_args=ServerArgs(attention_backend="triton", kv_cache_dtype="bf16")\n' > log
PYTHONPATH=site kvcal doctor --installed python3 log
PYTHONPATH=site kvcal doctor --installed python3 --command 'docker run vllm/vllm-openai:v0.31.0 --model m'
PYTHONPATH=site kvcal doctor --installed python3 --server vllm log | grep '^  server'
PYTHONPATH=site kvcal doctor --installed python3 --command '--model m --calculate-kv-scales' | grep 'do:'
echo 'server = "vllm@0.31"' > kvcal.toml; PYTHONPATH=site kvcal doctor --installed python3 --facts | head -n 1; rm kvcal.toml
echo '--- interrupted'
printf '#!/bin/sh\necho $$ > child\nexec sleep 60\n' > slow; chmod +x slow
kvcal doctor --installed ./slow & until [ -s child ]; do sleep 0.05; done
kill -INT $!; wait $!; echo $?
for i in 1 2 3 4 5 6 7 8 9 10; do grep -q '^State:.[RSD]' /proc/$(cat child)/status 2>/dev/null || break; sleep 0.1; done
test $i -lt 10 && echo 'has ended' || kill $(cat child)
PYTHONPATH=site kvcal doctor --installed python3 --server vllm@0.31.0
# exits 2
