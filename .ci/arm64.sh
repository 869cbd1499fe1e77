#!/bin/sh
# arm64.sh [TARGET...]: cross-compiles for arm64 into build/arm64 with Debian's compiler.
set -eu
cd "$(dirname "$0")/.."
sh .ci/arm64_packages.sh
cmake --preset arm64 >/dev/null
cmake --build --preset arm64 --parallel "$(sh .ci/jobs.sh)" ${1:+--target "$@"}
