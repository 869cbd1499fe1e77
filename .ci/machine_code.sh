#!/bin/sh
# machine_code.sh: what nvcc made of the kernels for sm_90a (build/cuda-compile, by cuda_compile.sh) held against the
# table in kernels/README.md. cuobjdump comes from the toolkit, else from NVIDIA's PyPI wheels into build/cuobjdump.
set -eu
cd "$(dirname "$0")/.."
set -- build/cuda-compile/*.sm_90a.o
if [ ! -f "$1" ]; then
  echo 'machine code: SKIPPED: nothing was compiled for sm_90a'
  exit 0
fi
tools=$PWD/build/cuobjdump
if ! command -v cuobjdump >/dev/null 2>&1 || ! command -v nvdisasm >/dev/null 2>&1; then
  if [ ! -f "$tools/complete" ]; then
    rm -rf "$tools"
    if python3 -m pip install --quiet --no-deps --only-binary=:all: --target "$tools" \
      'nvidia-cuda-cuobjdump==13.2.*' 'nvidia-cuda-nvdisasm==13.2.*'; then
      touch "$tools/complete"
    elif python3 -m pip download --quiet --no-deps --dest "$tools/probe" nvidia-cuda-crt >/dev/null 2>&1; then
      echo 'machine code: PyPI answers, but not with cuobjdump' >&2
      exit 2
    else
      echo 'machine code: SKIPPED: neither a CUDA toolkit with cuobjdump nor PyPI can be reached'
      exit 0
    fi
  fi
  PATH=$tools/nvidia/cu13/bin:$PATH
fi
exec python3 tests/machine_code/check.py "$(command -v cuobjdump)" "$@"
