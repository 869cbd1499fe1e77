#!/bin/sh
# 'make demo' as a stranger runs it: in a fresh clone, twice; the second run may compile nothing.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

git clone -q . "$scratch/kvcal"
cd "$scratch/kvcal"
# Lets ccache see that the clone's files and options are the ones it knows from the build with warnings as errors.
CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 KVCAL_WERROR=ON
export CCACHE_BASEDIR CCACHE_NOHASHDIR KVCAL_WERROR

make demo
start=$(date +%s)
make demo >second.log 2>&1 || { cat second.log; exit 1; }
echo "second 'make demo': $(($(date +%s) - start)) s"
if grep -E 'Building|Linking|Configuring' second.log; then
  echo "the second 'make demo' rebuilt something" >&2
  exit 1
fi
rm second.log
if [ -n "$(git status --porcelain)" ]; then
  echo "'make demo' left files in the tree:" >&2
  git status --porcelain >&2
  exit 1
fi
