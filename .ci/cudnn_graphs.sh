#!/bin/sh
# cudnn_graphs.sh: compiles the attention through cuDNN with the toolkit's headers, and has cuDNN check the graphs it makes;
# and reads the probe that uses the same headers.
# No GPU is needed. Says why and does nothing where the toolkit or cuDNN are not installed.
set -eu
cd "$(dirname "$0")/.."
cuda=${CUDA_HOME:-/usr/local/cuda}
out=build/cudnn-graphs
skip() {
  echo "cudnn-graphs: skipped: $1" >&2
  exit 0
}
[ -f "$cuda/include/cudnn.h" ] || skip "no cudnn.h in $cuda/include"
runtime=$(find -L "$cuda/lib64" -name 'libcudart.so*' 2>/dev/null | sort | head -n 1)
[ -n "$runtime" ] || skip "no libcudart.so in $cuda/lib64"
frontend=$(sh .ci/cudnn_frontend.sh) || skip 'the headers of nvidia-cudnn-frontend cannot be fetched'

mkdir -p "$out"
start=$(date +%s)
compiler="$(command -v ccache || true) ${CXX:-g++}"
objects=
for source in kernels/cudnn/cudnn_attention.cpp kernels/attention_library.cpp kernels/runtime/memory.cpp \
  kernels/runtime/check.cpp tests/cudnn/graph_test.cpp; do
  object=$out/$(basename "$source" .cpp).o
  objects="$objects $object"
  # shellcheck disable=SC2086  # ccache and the compiler
  $compiler -std=c++20 -O1 -Wall -Wextra -Werror -I. -Ilib -isystem "$frontend" -isystem "$cuda/include" -c "$source" \
    -o "$object"
done
# shellcheck disable=SC2046,SC2086  # lists
$compiler $objects $(pkg-config --libs gtest_main) lib/base/error.cpp lib/base/lines.cpp lib/tensor/*.cpp -std=c++20 -Ilib "$runtime" \
  -Wl,-rpath,"$(dirname "$runtime")" -ldl -o "$out/test_cudnn_graphs"
"$out/test_cudnn_graphs" --gtest_brief=1
$compiler -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I. -Ilib -Itests -isystem "$frontend" -isystem "$cuda/include" \
  tests/bench/probes/cudnn_experts.cpp
echo "cudnn-graphs: ok, $(($(date +%s) - start)) s"
