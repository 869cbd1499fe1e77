# Sourced, from the root, after dist_environment.sh: what the dist*.sh have in common. All goes into $out.
out=build/dist

# wheel FOLDER AUDITWHEEL-OPTION...: of the project in FOLDER.
wheel() {
  project=$1
  shift
  pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $out/raw "$project"
  auditwheel repair --only-plat "$@" --wheel-dir $out $out/raw/*.whl
  rm -rf $out/raw
}

# debian_package BUILD: in the folder BUILD of the wheel, so that only links are made again.
debian_package() {
  cmake -S . -B "$1" -DKVCAL_PORTABLE=OFF -DCMAKE_INSTALL_PREFIX=/usr >$out/log || { cat $out/log; exit 1; }
  cmake --build "$1" --target kvcal debian_files
  (cd "$1" && cpack -G DEB) >$out/log || { cat $out/log; exit 1; }
  rm $out/log
  mv "$1"/kvcal_*.deb $out
}

sums() {
  (cd $out && sha256sum kvcal* >SHA256SUMS)
}
