#!/bin/sh
# Compiles every header of lib/, apps/ and kernels/ alone: each includes what it uses. A header that its own source includes
# first (x.h by x.cpp) is left out: those of kernels/ every build compiles so, and of lib/ and apps/ tests/rules sees to it
# that files include what they name.
set -eu
cd "$(dirname "$0")/.."

# headers FIND-ARGUMENTS...: those that no source begins with.
headers() {
  find "$@" | sort | while IFS= read -r header; do
    for source in "${header%.*}.cpp" "${header%.*}.cu"; do
      [ ! -f "$source" ] || ! grep -m 1 '^#include' "$source" | grep -q "[\"/]$(basename "$header")\"" || continue 2
    done
    printf '%s\0' "$header"
  done
}

# Through -include, since a header as the main file would draw a warning for its "#pragma once".
headers lib apps -name '*.h' |
  xargs -0 -P "$(sh .ci/jobs.sh)" -I '{}' "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -Wno-psabi -Ilib -Iapps \
    -include '{}' -x c++ /dev/null
# The kernels' with the emulator in the place of CUDA.
headers kernels tests/emulator \( -name '*.h' -o -name '*.cuh' \) |
  xargs -0 -P "$(sh .ci/jobs.sh)" -I '{}' "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -Wno-unknown-pragmas \
    -I. -Ilib -Itests -Itests/emulator/include -include '{}' -x c++ /dev/null
