#!/bin/sh
# Compiles every header of lib/, apps/ and kernels/ alone: a header includes what it uses.
set -eu
cd "$(dirname "$0")/.."
# Through -include, since a header as the main file would draw a warning for its "#pragma once".
find lib apps -name '*.h' -print0 |
  xargs -0 -P "$(sh .ci/jobs.sh)" -I '{}' "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -Wno-psabi -Ilib -Iapps \
    -include '{}' -x c++ /dev/null
# The kernels' with the emulator in the place of CUDA.
find kernels tests/emulator \( -name '*.h' -o -name '*.cuh' \) -print0 |
  xargs -0 -P "$(sh .ci/jobs.sh)" -I '{}' "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -I. -Ilib -Itests \
    -Itests/emulator/include -include '{}' -x c++ /dev/null
