#!/bin/sh
# dist_twice.sh [SCRIPT...]: 'make dist' here and in a clone elsewhere must give the same bytes; so must what each SCRIPT adds,
# such as dist_arm64.sh. With CCACHE_DISABLE=1 the compiler has to give them; else the clone's objects are those of this tree
# where ccache finds that paths do not reach them.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
[ -z "$(git status --porcelain)" ] || { echo 'dist-twice: the tree has changes that its clone would lack' >&2; exit 2; }

for script in dist.sh "$@"; do sh ".ci/$script"; done
git clone -q . "$scratch/in/another/folder"
cd "$scratch/in/another/folder"
for script in dist.sh "$@"; do CCACHE_BASEDIR=$PWD sh ".ci/$script"; done
cd - >/dev/null
diff build/dist/SHA256SUMS "$scratch/in/another/folder/build/dist/SHA256SUMS"
echo "dist-twice: equal, $(wc -l <build/dist/SHA256SUMS) files"
