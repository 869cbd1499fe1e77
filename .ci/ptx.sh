#!/bin/sh
# ptx.sh: builds the tests of what nvcc makes of the kernels, in build/release; from then on ctest has them (label ptx). The
# toolkit is that of cuda_compile.sh: without one and without network it says so and leaves (exit code 0).
set -eu
cd "$(dirname "$0")/.."
. .ci/cuda_toolkit.sh
find_toolkit ptx
nvcc=$(cd "$cuda" && pwd)/bin/nvcc
[ -x "$nvcc" ] || { echo "ptx: no nvcc in $cuda/bin" >&2; exit 2; }
cmake --preset release -DKVCAL_TESTS=ON -DKVCAL_NVCC="$nvcc"
cmake --build --preset release --parallel "$(sh .ci/jobs.sh)" --target test_ptx test_parity_ptx
# A configuration that left them out would pass all the same.
ctest --test-dir build/release -N -L ptx | grep -q ptx_parity || { echo 'ptx: ctest has no case ptx_parity' >&2; exit 2; }
