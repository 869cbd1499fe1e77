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
if ! command -v cuobjdump >/dev/null 2>&1 || ! command -v nvdisasm >/dev/null 2>&1; then
  . .ci/cuda_toolkit.sh
  fetch_wheels 'machine code' build/cuobjdump cuobjdump 'it was not looked at' 'nvidia-cuda-cuobjdump==13.2.*' 'nvidia-cuda-nvdisasm==13.2.*'
  PATH=$PWD/build/cuobjdump/nvidia/cu13/bin:$PATH
fi
exec python3 tests/machine_code/check.py "$(command -v cuobjdump)" "$@"
