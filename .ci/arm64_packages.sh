#!/bin/sh
# arm64_packages.sh: arm64's libraries of Debian, unpacked into build/arm64-packages: not all can be installed beside this machine's,
# and qemu-user must find one C library there, not halves of two. Needs root or sudo once, to install the compiler and to let
# apt know of arm64's packages.
set -eu
cd "$(dirname "$0")/.."
packages=$PWD/build/arm64-packages
sh .ci/packages.sh build test arm64
[ ! -f "$packages/dpkg/complete" ] || exit 0

as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
if ! dpkg --print-foreign-architectures | grep -qx arm64; then
  $as_root dpkg --add-architecture arm64
  $as_root apt-get update -qq
fi
rm -rf "$packages"
mkdir -p "$packages/debs" "$packages/dpkg/info" "$packages/dpkg/updates"
cd "$packages/debs"
apt-get download -qq libjpeg62-turbo-dev:arm64 libjpeg62-turbo:arm64 libpng-dev:arm64 libpng16-16:arm64 libonig-dev:arm64 libonig5:arm64 libutf8proc-dev:arm64 libutf8proc2:arm64 \
  libwebp-dev:arm64 libwebp7:arm64 libwebpdemux2:arm64 \
  libyaml-dev:arm64 libyaml-0-2:arm64 libzstd-dev:arm64 libzstd1:arm64 zlib1g-dev:arm64 zlib1g:arm64 libgtest-dev:arm64 libc6:arm64 libstdc++6:arm64 libgcc-s1:arm64

# In dpkg/, what dpkg would know of the libraries had it installed them there: dpkg-shlibdeps and dpkg-query ask for it.
echo 1 >"$packages/dpkg/info/format"
for deb in *.deb; do
  dpkg-deb --extract "$deb" "$packages"
  info=$packages/dpkg/info/$(dpkg-deb --show --showformat '${Package}:${Architecture}' "$deb")
  dpkg-deb --info "$deb" shlibs >"$info.shlibs" 2>/dev/null || { rm "$info.shlibs"; continue; }
  dpkg-deb --info "$deb" symbols >"$info.symbols" 2>/dev/null || rm "$info.symbols"
  dpkg-deb --fsys-tarfile "$deb" | tar -t | sed "s|^\.|$packages|; s|/$||" >"$info.list"
  { dpkg-deb --field "$deb"; printf 'Status: install ok installed\n\n'; } >>"$packages/dpkg/status"
done
rm -r "$packages/debs"
touch "$packages/dpkg/complete"
