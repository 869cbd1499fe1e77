# For '. .ci/cuda_toolkit.sh' at the root of the tree. find_toolkit WHO: the folder that holds bin/nvcc and include/, in
# `cuda`; an installed one unless KVCAL_NVCC=pypi, else nvcc's PyPI wheels in build/nvcc. Where neither can be had it says so
# and ends the script (exit code 0).
# shellcheck shell=sh disable=SC2034
packages='nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.*'

# fetch_wheels WHO FOLDER WHAT LOST WHEEL...: once. Without PyPI it says LOST and ends the script (exit code 0).
fetch_wheels() {
  for_whom=$1 folder=$2 what=$3 lost=$4
  shift 4
  [ ! -f "$folder/complete" ] || return 0
  echo "$for_whom: no CUDA toolkit with it; fetching $what from PyPI"
  rm -rf "$folder"
  if python3 -m pip install --quiet --no-deps --only-binary=:all: --target "$folder" "$@"; then
    touch "$folder/complete"
  elif python3 -m pip download --quiet --no-deps --dest "$folder/probe" nvidia-cuda-crt >/dev/null 2>&1; then
    echo "$for_whom: PyPI answers, but not with $what" >&2
    exit 2
  else
    echo "$for_whom: SKIPPED: neither a CUDA toolkit with it nor PyPI can be reached; $lost"
    exit 0
  fi
}

find_toolkit() {
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
  # shellcheck disable=SC2086  # a list
  fetch_wheels "$1" build/nvcc 'nvcc (about 104 MB)' 'the kernels were not compiled by nvcc' $packages
}
