#!/bin/sh
# cuda_12_8.sh [ARCH...]: what can be tried of CUDA 12.8, which serves older drivers, without its nvcc: PyPI's wheels of that version
# have the assembler and the headers, but no compiler. Has 12.8's ptxas assemble what an installed nvcc makes of the kernels, and the
# compiler check the host's part against 12.8's headers. PTX names the version of its language, newer than 12.8 knows: it is
# lowered, so that every instruction and directive has to be one of 12.8's.
set -eu
cd "$(dirname "$0")/.."
out=build/cuda-12.8
wheels=$out/wheels
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo 'cuda-12.8: skipped: no nvcc to make PTX with' >&2; exit 0; }
[ $# -gt 0 ] || set -- sm_80 sm_90a
mkdir -p "$out"
if [ ! -f "$wheels/complete" ]; then
  rm -rf "$wheels"
  python3 -m pip install --quiet --no-deps --only-binary=:all: --target "$wheels" 'nvidia-cuda-nvcc-cu12==12.8.*' \
    'nvidia-cuda-runtime-cu12==12.8.*' 'nvidia-cublas-cu12==12.8.*' 'nvidia-cuda-cccl-cu12==12.8.*'
  touch "$wheels/complete"
fi
ptxas=$wheels/nvidia/cuda_nvcc/bin/ptxas
includes=
for folder in "$wheels"/nvidia/*/include; do includes="$includes -isystem $folder"; done
language=8.7 # of CUDA 12.8

cat >"$out/job.sh" <<EOF
set -eu
echo "\$*"
if [ "\$1" = host ]; then
  exec "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -I. -Ilib $includes "\$2"
fi
ptx=$out/\$(basename "\$2" .cu).\$3.ptx
"$nvcc" -std=c++20 -O3 --fmad=false -I. -Ilib --generate-code "arch=compute_\${3#*_},code=compute_\${3#*_}" -ptx "\$2" -o "\$ptx"
sed -i 's/^\.version .*/.version $language/' "\$ptx"
exec $ptxas --gpu-name "\$3" "\$ptx" -o "\${ptx%.ptx}.cubin"
EOF
start=$(date +%s)
{
  for source in kernels/*.cu; do
    for arch in "$@"; do echo "ptx $source $arch"; done
  done
  for source in kernels/*.cpp kernels/runtime/*.cpp; do echo "host $source"; done
} | xargs -P "$(sh .ci/jobs.sh)" -L 1 sh "$out/job.sh"
echo "cuda-12.8: ok for $*, $(($(date +%s) - start)) s"
