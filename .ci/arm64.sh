#!/bin/sh
# arm64.sh [TARGET...]: cross-compiles for arm64 into build/arm64 with Debian's compiler. Needs root or sudo once, to install it and
# to let apt know of arm64's packages. These are unpacked into build/arm64-packages: not all can be installed beside this machine's, and
# qemu-user must find one C library there, not halves of two.
set -eu
cd "$(dirname "$0")/.."
packages=build/arm64-packages
sh .ci/packages.sh build test arm64
if [ ! -f $packages/complete ]; then
  as_root=
  [ "$(id -u)" -eq 0 ] || as_root=sudo
  if ! dpkg --print-foreign-architectures | grep -qx arm64; then
    $as_root dpkg --add-architecture arm64
    $as_root apt-get update -qq
  fi
  rm -rf $packages
  mkdir -p $packages/debs
  (cd $packages/debs && apt-get download -qq libonig-dev:arm64 libonig5:arm64 libutf8proc-dev:arm64 libutf8proc2:arm64 \
    libzstd-dev:arm64 libzstd1:arm64 zlib1g-dev:arm64 zlib1g:arm64 libgtest-dev:arm64 libc6:arm64 libstdc++6:arm64 libgcc-s1:arm64)
  for deb in "$packages"/debs/*.deb; do dpkg -x "$deb" $packages; done
  rm -r $packages/debs
  touch $packages/complete
fi
cmake --preset arm64 >/dev/null
cmake --build --preset arm64 --parallel "$(sh .ci/jobs.sh)" ${1:+--target "$@"}
