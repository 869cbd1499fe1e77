#!/bin/sh
# check.sh: what 'make dist' left in build/dist, installed as users do. The wheel in an environment of each python3.N in PATH,
# the tarball in a folder of its own, the Debian package unpacked; each calibrates the demo to the same bytes.
set -eu
cd "$(dirname "$0")/../.."
source=$PWD dist=$PWD/build/dist
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
fail() {
  echo "packages: $*" >&2
  exit 1
}

# calibrate NAME COMMAND...: the demo, with a program that finds nothing of this machine but the system's libraries.
calibrate() {
  name=$1
  shift
  (cd "$scratch" && env -i PATH=/usr/bin:/bin HOME="$scratch" SOURCE_DATE_EPOCH=1 "$@" calibrate "$source/datasets/demo/stressed" \
    --prompts "$source/datasets/demo/prompts.jsonl" -q -o "$name.json") || fail "$name: calibrate fails"
}

(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
[ "$(find "$dist" -name 'kvcal*' | wc -l)" = "$(wc -l <"$dist/SHA256SUMS")" ] || fail 'SHA256SUMS lacks a file'
wheel=$(echo "$dist"/kvcal-*-py3-none-manylinux_2_34_x86_64.whl)
[ "$(stat -c %s "$wheel")" -le 20000000 ] || fail "$wheel has more than 20 MB"

echo '== tarball'
tar -C "$scratch" -xf "$dist"/kvcal-*-linux-x86_64.tar.gz
mv "$scratch"/kvcal-*-linux-x86_64 "$scratch/tarball"
calibrate tarball "$scratch/tarball/bin/kvcal"
python3 tests/packages/symbols.py "$scratch"/tarball/bin/kvcal "$scratch"/tarball/lib/kvcal/*.so.*
python3 tests/packages/hardening.py "$scratch/tarball/bin/kvcal"

echo '== a processor without AVX2'
# One line, exit code 2; no illegal instruction. What computes no rows works there.
emulated="qemu-x86_64 -cpu Nehalem $scratch/tarball/bin/kvcal"
$emulated inspect datasets/demo/natural >/dev/null 2>&1 || fail 'inspect fails without AVX2'
code=0
$emulated calibrate datasets/demo/natural -q -o "$scratch/none.json" >"$scratch/said" 2>&1 || code=$?
[ $code = 2 ] && grep -q '^kvcal: error: this processor has no AVX2 and FMA' "$scratch/said" || fail "without AVX2: exit code $code, $(cat "$scratch/said")"

echo '== wheel'
tried=0
for python in python3.9 python3.10 python3.11 python3.12 python3.13 python3.14; do
  command -v $python >/dev/null 2>&1 && $python -c 'import venv, ensurepip' 2>/dev/null || continue
  $python -m venv "$scratch/$python"
  "$scratch/$python/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
  "$scratch/$python/bin/python" tests/packages/check_wheel.py
  python3 tests/packages/hardening.py "$("$scratch/$python/bin/python" -c 'import kvcal; print(kvcal.program())')"
  calibrate $python "$scratch/$python/bin/kvcal"
  cmp "$scratch/$python.json" "$scratch/tarball.json"
  echo "$python: ok"
  tried=$((tried + 1))
done
[ $tried -gt 0 ] || fail 'no python3.N with venv in PATH'

if cuda=$(ls "$dist"/kvcal_cuda13-*.whl 2>/dev/null); then
  echo '== wheel of the CUDA backend'
  # Without NVIDIA's packages, which are half a gigabyte: the program names what is missing, once it finds a driver.
  python3 -m venv "$scratch/cuda"
  "$scratch/cuda/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$wheel" "$cuda"
  backend=$(echo "$scratch"/cuda/lib/python3*/site-packages/kvcal/lib/kvcal/libkvcal_cuda.so)
  python3 tests/packages/symbols.py "$backend"
  python3 tests/packages/hardening.py "$backend"
  "$scratch/cuda/bin/kvcal" --version | tail -n 1
  "$scratch/cuda/bin/kvcal" --version | tail -n 1 | grep -q 'cuda: built in' || fail 'the program does not find its backend'
fi

echo '== Debian package'
deb=$(echo "$dist"/kvcal_*_amd64.deb)
# An upload to Debian itself would name the bug that asks for it.
lintian --allow-root --suppress-tags initial-upload-closes-no-bugs --fail-on error,warning "$deb"
dpkg-deb -x "$deb" "$scratch/deb"
calibrate deb "$scratch/deb/usr/bin/kvcal"
python3 tests/packages/hardening.py "$scratch/deb/usr/bin/kvcal"
cmp "$scratch/deb.json" "$scratch/tarball.json"
dpkg-deb -f "$deb" Depends
for file in share/man/man1/kvcal.1.gz share/doc/kvcal/copyright share/bash-completion/completions/kvcal; do
  [ -f "$scratch/deb/usr/$file" ] || fail "the package lacks /usr/$file"
done

echo '== completions'
PATH=$scratch/deb/usr/bin:$PATH
export PATH
sh tests/packages/completions.sh "$scratch/deb/usr/share"
echo 'packages: ok'
