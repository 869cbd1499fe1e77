#!/bin/sh
# Compiles every header of lib/, apps/ and kernels/ alone, and every source of apps: each includes what it uses. A header
# that its own source includes first (x.h by x.cpp) is compiled like that already and is left out here.
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
# In a release build several of these sources are compiled as one, in the others only the libraries are: here each alone.
find apps -name '*.cpp' -print0 |
  xargs -0 -P "$(sh .ci/jobs.sh)" -n 1 "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -Wno-psabi -Ilib -Iapps
# The kernels' with the emulator in the place of CUDA.
headers kernels tests/emulator \( -name '*.h' -o -name '*.cuh' \) |
  xargs -0 -P "$(sh .ci/jobs.sh)" -I '{}' "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -Wno-unknown-pragmas \
    -I. -Ilib -Itests -Itests/emulator/include -include '{}' -x c++ /dev/null
