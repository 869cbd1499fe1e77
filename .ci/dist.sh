#!/bin/sh
# dist.sh: what is published of this commit, into build/dist: the wheel, the Debian package, the tarball, the list of their
# parts (SPDX) and SHA256SUMS. A commit gives the same bytes in every folder: see dist_twice.sh.
set -eu
cd "$(dirname "$0")/.."
. .ci/dist_environment.sh

out=build/dist
rm -rf $out
mkdir -p $out
version=$(sed -n 's/^project(kvcal VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

echo '== wheel'
# These two libdnnl.so.2 needs: it finds them, as all are found, by the program's RPATH.
pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $out/raw apps/python
auditwheel repair --plat manylinux_2_34_x86_64 --only-plat --exclude libgomp.so.1 --exclude libOpenCL.so.1 \
  --wheel-dir $out $out/raw/*.whl
rm -rf $out/raw

echo '== tarball'
folder=kvcal-$version-linux-x86_64
cmake --install build/packages --prefix "$out/tree/$folder" --strip >/dev/null
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C $out/tree -c "$folder" |
  gzip -9n >"$out/$folder.tar.gz"
python3 .ci/sbom.py "$version" "$SOURCE_DATE_EPOCH" "$out/tree/$folder" >"$out/kvcal-$version.spdx.json"
pyspdxtools --infile "$out/kvcal-$version.spdx.json"
rm -rf $out/tree

echo '== Debian package'
# In the same folder, so that only links are made again.
cmake -S . -B build/packages -DKVCAL_PORTABLE=OFF -DCMAKE_INSTALL_PREFIX=/usr >$out/log || { cat $out/log; exit 1; }
cmake --build build/packages --target kvcal debian_files
(cd build/packages && cpack -G DEB) >$out/log || { cat $out/log; exit 1; }
rm $out/log
mv build/packages/kvcal_*.deb $out

(cd $out && sha256sum kvcal* >SHA256SUMS)
ls -l $out
