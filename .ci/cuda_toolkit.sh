# For '. .ci/cuda_toolkit.sh' at the root of the tree. find_toolkit WHO: the folder that holds bin/nvcc and include/, in
# `cuda`; an installed one unless KVCAL_NVCC=pypi, else nvcc's PyPI wheels in build/nvcc. Where neither can be had it says so
# and ends the script (exit code 0).
# shellcheck shell=sh disable=SC2034
packages='nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.*'

find_toolkit() {
  for_whom=$1
  if [ "${KVCAL_NVCC:-}" != pypi ]; then
    if command -v nvcc >/dev/null 2>&1; then
      cuda=$(dirname "$(dirname "$(command -v nvcc)")")
      return
    elif [ -x /usr/local/cuda/bin/nvcc ]; then
      cuda=/usr/local/cuda
      return
    fi
  fi
  cuda=build/nvcc/nvidia/cu13
  [ ! -f build/nvcc/complete ] || return 0
  echo "$for_whom: no CUDA toolkit; fetching nvcc from PyPI (about 104 MB)"
  rm -rf build/nvcc
  # shellcheck disable=SC2086  # a list
  if python3 -m pip install --quiet --no-deps --only-binary=:all: --target build/nvcc $packages; then
    touch build/nvcc/complete
  elif python3 -m pip download --quiet --no-deps --dest build/nvcc/probe nvidia-cuda-crt >/dev/null 2>&1; then
    echo "$for_whom: PyPI answers, but not with nvcc" >&2
    exit 2
  else
    echo "$for_whom: SKIPPED: neither a CUDA toolkit nor PyPI can be reached; the kernels were not compiled by nvcc"
    exit 0
  fi
}
