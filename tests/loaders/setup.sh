#!/bin/sh
# setup.sh: installs the servers, each into an environment of its own below REF; what is there already stays.
#
# Needs network, about 20 GB of disk, python 3.11 (PYTHON), and a CUDA toolkit for its stub of libcuda.so. No GPU, no driver.
set -eu
REF=${REF:-$HOME/.cache/kvcal-loaders}
PYTHON=${PYTHON:-python3.11}
VLLM=${VLLM:-0.33.0}
SGLANG=${SGLANG:-0.5.23}
export UV_CACHE_DIR="$REF/uv" UV_HTTP_TIMEOUT=300
mkdir -p "$REF/stubs"
[ -x "$REF/tools/bin/uv" ] || { "$PYTHON" -m venv "$REF/tools" && "$REF/tools/bin/pip" install -q uv; }
uv=$REF/tools/bin/uv

version() { # SERVER PACKAGE: what its environment has, nothing where it is missing
  "$REF/$1/bin/python" -c "import importlib.metadata as m; print(m.version('$2'))" 2>/dev/null || true
}

if [ "$(version vllm vllm)" != "$VLLM" ]; then
  "$uv" venv -q --python "$PYTHON" --clear "$REF/vllm"
  # 0.33.0 asks for a certifi that was not out when it was.
  echo 'certifi>=2026.10.1' >"$REF/override.txt"
  "$uv" pip install -q --python "$REF/vllm/bin/python" --override "$REF/override.txt" "vllm==$VLLM"
  # It brings cuda-python 12 beside cuda-bindings 13. Both own cuda/bindings, and imports fail: a pair of 13.
  "$uv" pip uninstall -q --python "$REF/vllm/bin/python" cuda-python cuda-bindings
  "$uv" pip install -q --python "$REF/vllm/bin/python" 'cuda-python>=13'
fi
if [ "$(version sglang sglang)" != "$SGLANG" ]; then
  "$uv" venv -q --python "$PYTHON" --clear "$REF/sglang"
  "$uv" pip install -q --python "$REF/sglang/bin/python" "sglang==$SGLANG"
fi

# AutoRound's sources, for check_upstream.py, which runs them with vLLM's packages.
[ -d "$REF/auto-round/auto_round" ] ||
  "$uv" pip install -q --no-deps --target "$REF/auto-round" --python "$REF/vllm/bin/python" 'auto-round==0.16.1'

# Compiled parts of both link libcuda.so.1. The stub of a toolkit is enough to load them.
for stub in /usr/local/cuda*/lib64/stubs/libcuda.so /usr/local/cuda*/targets/*/lib/stubs/libcuda.so; do
  [ -e "$stub" ] && ln -sf "$stub" "$REF/stubs/libcuda.so.1"
done
[ -e "$REF/stubs/libcuda.so.1" ] ||
  echo "no stub of libcuda.so below /usr/local/cuda*: vLLM will find no attention backend that is compiled" >&2

for server in vllm sglang; do
  echo "$server $(version $server $server), torch $(version $server torch), transformers $(version $server transformers)"
done
