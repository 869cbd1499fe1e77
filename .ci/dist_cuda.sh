#!/bin/sh
# dist_cuda.sh: the wheel of the CUDA backend, beside what dist.sh left in build/dist. Needs nvcc of CUDA 13 in PATH; compiles for
# every architecture, 7 minutes on two processors.
set -eu
cd "$(dirname "$0")/.."
. .ci/dist_environment.sh
sh .ci/cudnn_frontend.sh >/dev/null # without its headers the backend would lack fast attention

out=build/dist
mkdir -p $out
rm -f $out/kvcal_cuda13-*.whl
pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $out/raw apps/python/cuda13
# What NVIDIA's packages bring, and the program opens.
auditwheel repair --plat manylinux_2_34_x86_64 --only-plat --exclude 'libcublasLt.so.*' --wheel-dir $out $out/raw/*.whl
rm -rf $out/raw
(cd $out && sha256sum kvcal* >SHA256SUMS)
ls -l $out/kvcal_cuda13-*.whl
