#!/bin/sh
# dist.sh: what is published of this commit, into build/dist: the wheel, the Debian package, the tarball, the list of their
# parts (SPDX) and SHA256SUMS. A commit gives the same bytes in every folder: see dist_twice.sh.
set -eu
cd "$(dirname "$0")/.."
. .ci/dist_environment.sh
. .ci/dist_parts.sh
rm -rf $out
mkdir -p $out
version=$(sed -n 's/^project(kvcal VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

echo '== wheel'
# These two libdnnl.so.2 needs: it finds them, as all are found, by the program's RPATH.
wheel apps/python --plat manylinux_2_34_x86_64 --exclude libgomp.so.1 --exclude libOpenCL.so.1

echo '== tarball'
folder=kvcal-$version-linux-x86_64
cmake --install build/packages --prefix "$out/tree/$folder" --strip >/dev/null
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C $out/tree -c "$folder" |
  gzip -9n >"$out/$folder.tar.gz"
python3 .ci/sbom.py "$version" "$SOURCE_DATE_EPOCH" "$out/tree/$folder" >"$out/kvcal-$version.spdx.json"
pyspdxtools --infile "$out/kvcal-$version.spdx.json"
rm -rf $out/tree

echo '== Debian package'
debian_package build/packages

sums
ls -l $out
