#!/bin/sh
# cuda_compile.sh [ARCH...]: compiles kernels/ with nvcc for the given architectures (all that are supported, if none),
# links nothing. Takes an installed toolkit, else nvcc's PyPI wheels into build/nvcc.
set -eu
cd "$(dirname "$0")/.."
out=build/cuda-compile
mkdir -p "$out"

# Prints the folder that holds bin/nvcc and include/.
toolkit() {
  if command -v nvcc >/dev/null 2>&1; then
    dirname "$(dirname "$(command -v nvcc)")"
  elif [ -x /usr/local/cuda/bin/nvcc ]; then
    echo /usr/local/cuda
  else
    if [ ! -x build/nvcc/nvidia/cu13/bin/nvcc ]; then
      echo 'cuda-compile: no CUDA toolkit; fetching nvcc from PyPI (about 104 MB)' >&2
      python3 -m pip install --quiet --target build/nvcc 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' \
        'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' >&2
    fi
    echo build/nvcc/nvidia/cu13
  fi
}

cuda=$(toolkit)
[ -x "$cuda/bin/nvcc" ] || { echo "cuda-compile: no nvcc in $cuda/bin" >&2; exit 2; }
[ $# -gt 0 ] || set -- sm_80 sm_90a sm_100 sm_120 compute_80
codes=
for code in "$@"; do codes="$codes -gencode arch=compute_${code#*_},code=$code"; done

flags='-std=c++20 -I. -Ilib -Xcompiler -Wall,-Wextra'
start=$(date +%s)
for source in kernels/*.cu; do
  object=$out/$(basename "$source" .cu).o
  echo "nvcc $source"
  # shellcheck disable=SC2086  # lists of options
  "$cuda/bin/nvcc" $flags $codes --threads "$(sh .ci/jobs.sh)" -Werror all-warnings -c "$source" -o "$object"
done
# The host's part, against the real headers: the emulator's must not promise what CUDA does not have.
for source in kernels/*.cpp kernels/runtime/*.cpp; do
  echo "host $source"
  "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -I. -Ilib -isystem "$cuda/include" "$source"
done
echo "cuda-compile: ok for $*, $(($(date +%s) - start)) s"
