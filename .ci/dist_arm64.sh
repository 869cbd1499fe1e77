#!/bin/sh
# dist_arm64.sh: wheel and Debian package for arm64, cross-compiled, beside what dist.sh left in build/dist.
set -eu
cd "$(dirname "$0")/.."
. .ci/dist_environment.sh
. .ci/dist_parts.sh
sh .ci/arm64_packages.sh
mkdir -p $out
rm -f $out/kvcal-*_aarch64.whl $out/kvcal_*_arm64.deb

# The names under which scikit-build-core, pip and dpkg are told of another processor.
export SKBUILD_BUILD_DIR="$PWD/build/packages-arm64" SKBUILD_CMAKE_ARGS=--preset=arm64 _PYTHON_HOST_PLATFORM=linux-aarch64
export DPKG_ADMINDIR="$PWD/build/arm64-packages/dpkg" DEB_HOST_ARCH=arm64
python3 .ci/newest.py arm64

echo '== wheel'
# auditwheel takes names of this machine's platforms alone; from the symbols it finds manylinux_2_34_aarch64.
wheel apps/python --plat auto
echo '== Debian package'
debian_package build/packages-arm64

sums
ls -l $out/kvcal-*_aarch64.whl $out/kvcal_*_arm64.deb
