#!/bin/sh
# packages.sh [--check] SECTION...: sees to it that the Debian packages of these sections of packages.txt are there.
# Lists what is missing, then installs it as root or through sudo; where it may not (or with --check), says what to run
# instead and fails. When nothing is missing it needs no network and prints nothing.
set -eu

check_only=no
if [ "${1:-}" = --check ]; then
  check_only=yes
  shift
fi
list=$(dirname "$0")/packages.txt

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "packages: not a Debian system, nothing checked; needed are the equivalents of:" >&2
  for section in "$@"; do awk -v s="$section" '$1 == s { print "  " $2 }' "$list" >&2; done
  exit 0
fi

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=
for section in "$@"; do
  # shellcheck disable=SC2013  # words without spaces: package,tool
  for entry in $(awk -v s="$section" '$1 == s { print $2 "," $3 }' "$list"); do
    package=${entry%%,*}
    tool=${entry#*,}
    if [ -n "$tool" ] && command -v "$tool" >/dev/null 2>&1; then continue; fi
    installed "$package" || missing="$missing $package"
  done
done
[ -n "$missing" ] || exit 0

echo "Missing Debian packages:$missing"
install="apt-get install -y --no-install-recommends$missing"
as_root=
if [ "$(id -u)" -ne 0 ]; then
  # Ask for a password only where somebody can type it.
  if command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root=sudo
  else
    check_only=yes
  fi
fi
if [ $check_only = yes ]; then
  echo "They are not installed from here. Run this as root, then try again:" >&2
  echo "  apt-get update && $install" >&2
  exit 2
fi

echo "Installing them${as_root:+ through sudo} ..."
# A fresh machine has no package lists. An update that fails may still leave good lists behind: install decides.
$as_root apt-get -qq update || echo "packages: apt-get update failed; trying with the lists that are there" >&2
# shellcheck disable=SC2086  # the list is meant to be split
if ! $as_root env DEBIAN_FRONTEND=noninteractive $install >/dev/null; then
  echo "packages: installing failed. Run this as root, then try again:" >&2
  echo "  apt-get update && $install" >&2
  exit 2
fi
