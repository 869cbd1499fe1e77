#!/bin/sh
# dist_cuda.sh: the wheel of the CUDA backend, beside what dist.sh left in build/dist. Needs nvcc of CUDA 13 in PATH; compiles for
# every architecture, 7 minutes on two processors.
set -eu
cd "$(dirname "$0")/.."
. .ci/dist_environment.sh
. .ci/dist_parts.sh
sh .ci/cudnn_frontend.sh >/dev/null # without its headers the backend would lack fast attention

mkdir -p $out
rm -f $out/kvcal_cuda13-*.whl
# What NVIDIA's packages bring, and the program opens.
wheel apps/python/cuda13 --plat manylinux_2_34_x86_64 --exclude 'libcublasLt.so.*'
sums
ls -l $out/kvcal_cuda13-*.whl
