#!/bin/sh
# Fetches the headers of cuDNN's C++ interface (PyPI wheel, pinned) into build/cudnn-frontend; prints their folder. The
# wheel is made for one Python and platform; its headers are the same in all of them.
set -eu
cd "$(dirname "$0")/.."
version=1.32.0
hash=8b354a8e550c083eb247f1eb39a7d69a4a269075f5a01e4fcbd2531680b17239
folder=build/cudnn-frontend/$version
if [ ! -f "$folder/include/cudnn_frontend.h" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  echo "nvidia-cudnn-frontend==$version --hash=sha256:$hash" >"$folder/requirements.txt"
  python3 -m pip download --quiet --no-deps --require-hashes --only-binary=:all: --python-version 3.12 \
    --implementation cp --platform manylinux_2_28_x86_64 --dest "$folder" -r "$folder/requirements.txt" >&2
  (cd "$folder" && python3 -m zipfile -e ./*.whl wheel && mv wheel/include include && rm -rf wheel ./*.whl)
fi
echo "$PWD/$folder/include"
