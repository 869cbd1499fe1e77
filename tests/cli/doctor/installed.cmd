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
echo '--- interrupted'
printf '#!/bin/sh\necho $$ > child\nexec sleep 60\n' > slow; chmod +x slow
kvcal doctor --installed ./slow & until [ -s child ]; do sleep 0.05; done
kill -INT $!; wait $!; echo $?
for i in 1 2 3 4 5 6 7 8 9 10; do grep -q '^State:.[RSD]' /proc/$(cat child)/status 2>/dev/null || break; sleep 0.1; done
test $i -lt 10 && echo 'has ended' || kill $(cat child)
PYTHONPATH=site kvcal doctor --installed python3 --server vllm@0.31.0
# exits 2
