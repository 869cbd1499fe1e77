#!/bin/sh
# check_arm64.sh: what 'make dist-arm64' left in build/dist, installed in a Debian 12 for arm64 that is made for it and has nothing
# of ours. Needs root, and a kernel that hands arm64's programs to qemu (binfmt_misc).
set -eu
cd "$(dirname "$0")/../.."
dist=$PWD/build/dist root=$PWD/build/arm64-root
fail() {
  echo "packages: $*" >&2
  exit 1
}
wheel=$(echo "$dist"/kvcal-*-py3-none-manylinux_2_34_aarch64.whl)
deb=$(echo "$dist"/kvcal_*_arm64.deb)
(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
[ "$(stat -c %s "$wheel")" -le 20000000 ] || fail "$wheel has more than 20 MB"
[ "$(dpkg-deb --field "$deb" Architecture)" = arm64 ] || fail "$deb is not for arm64"
lintian --allow-root --suppress-tags initial-upload-closes-no-bugs --fail-on error,warning "$deb"
dpkg-deb --field "$deb" Depends

echo '== a Debian for arm64'
if [ ! -f "$root/complete" ]; then
  rm -rf "$root"
  debootstrap --arch=arm64 --foreign --variant=minbase --include=python3-pip,python3-venv bookworm "$root"
  # Under both names that the kernel may have been given.
  cp "$(command -v qemu-aarch64-static)" "$root/usr/bin/qemu-aarch64-static"
  ln -s qemu-aarch64-static "$root/usr/bin/qemu-aarch64"
  chroot "$root" /debootstrap/debootstrap --second-stage
  touch "$root/complete"
fi

# inside COMMAND...: in that Debian, with packages and demo in /try.
rm -rf "$root/try"
mkdir -p "$root/try/datasets" "$root/try/tests/packages"
cp "$wheel" "$deb" "$root/try"
cp -r datasets/demo "$root/try/datasets"
cp tests/packages/check_wheel.py "$root/try/tests/packages"
inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C SOURCE_DATE_EPOCH=1 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"
}

# calibrate NAME PROGRAM: of eight prompts, since qemu takes a hundred times as long as an arm64 processor would.
calibrate() {
  inside "$2" --version | head -n 1
  inside "$2" calibrate /try/datasets/demo/stressed --prompts /try/datasets/demo/prompts.jsonl --max-prompts 8 -q -o "/try/$1.json" || fail "$1: calibrate fails"
}

echo '== wheel'
inside rm -rf /environment
inside python3 -m venv /environment
inside /environment/bin/pip install --quiet --disable-pip-version-check --no-index "/try/$(basename "$wheel")"
python3 tests/packages/symbols.py "$(echo "$root"/environment/lib/python3*/site-packages/kvcal/bin/kvcal)" \
  "$root"/environment/lib/python3*/site-packages/kvcal/lib/kvcal/*.so.*
python3 tests/packages/hardening.py "$(echo "$root"/environment/lib/python3*/site-packages/kvcal/bin/kvcal)"
inside /environment/bin/python /try/tests/packages/check_wheel.py
calibrate wheel /environment/bin/kvcal

echo '== Debian package'
inside apt-get -qq purge -y kvcal >/dev/null 2>&1 || true # of the last time
inside apt-get -qq update
inside apt-get -o Dpkg::Use-Pty=0 -qq install -y --no-install-recommends "/try/$(basename "$deb")" >/dev/null
calibrate deb /usr/bin/kvcal
cmp "$root/try/deb.json" "$root/try/wheel.json"
grep -q '"neon"' "$root/try/deb.json" || fail 'the file does not name the class of processor'
echo 'packages for arm64: ok'
