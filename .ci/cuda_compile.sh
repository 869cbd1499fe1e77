#!/bin/sh
# cuda_compile.sh [ARCH...]: compiles kernels/ with nvcc for the given architectures (all that are supported, if none),
# and reads the host's part and what only programs for GPUs have (tests/gpu) against CUDA's headers; links nothing. One
# file and architecture at a time on each processor. Takes an installed toolkit unless KVCAL_NVCC=pypi,
# else nvcc's PyPI wheels into build/nvcc. Without toolkit and without network it says so and leaves (exit code 0).
set -eu
cd "$(dirname "$0")/.."
out=build/cuda-compile
mkdir -p "$out"
. .ci/cuda_toolkit.sh
find_toolkit cuda-compile
[ -x "$cuda/bin/nvcc" ] || { echo "cuda-compile: no nvcc in $cuda/bin" >&2; exit 2; }
# Headers of cuBLASLt are no part of nvcc's wheels; without them the host's part that uses it is not checked.
blas=
[ ! -f "$cuda/include/cublasLt.h" ] || blas=yes
[ $# -gt 0 ] || set -- sm_80 sm_90a sm_100 sm_120 compute_80

ccache=
command -v ccache >/dev/null 2>&1 && ccache=ccache
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR=1

# job nvcc SOURCE ARCH, job host SOURCE: what xargs runs.
cat >"$out/job.sh" <<EOF
set -eu
echo "\$*"
if [ "\$1" = host ]; then
  # The host's part, against the real headers: the emulator's must not promise what CUDA does not have.
  exec "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -I. -Ilib -Itests -isystem "$cuda/include" "\$2"
fi
# As in CMakeLists.txt: nothing is fused that the source does not fuse.
exec $ccache "$cuda/bin/nvcc" -std=c++20 -O3 --fmad=false -I. -Ilib -Xcompiler -Wall,-Wextra -Werror all-warnings \\
  --generate-code "arch=compute_\${3#*_},code=\$3" -c "\$2" -o "$out/\$(basename "\$2" .cu).\$3.o"
EOF

start=$(date +%s)
{
  # The largest first: the last ones to end are then small.
  for source in $(ls -S kernels/*.cu); do
    for arch in "$@"; do echo "nvcc $source $arch"; done
  done
  for source in kernels/*.cpp kernels/runtime/*.cpp tests/gpu/*.cpp tests/bench/gpu/device.cpp $(ls tests/bench/probes/*.cpp | grep -v cudnn_experts); do
    [ -n "$blas" ] || ! grep -qi 'cublas' "$source" || continue
    echo "host $source"
  done
} | xargs -P "$(sh .ci/jobs.sh)" -L 1 sh "$out/job.sh"
[ -n "$blas" ] || echo "cuda-compile: no cublasLt.h in $cuda/include: what uses cuBLASLt was not checked"
echo "cuda-compile: ok for $*, $(($(date +%s) - start)) s"
