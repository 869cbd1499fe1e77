#!/bin/sh
# failing_test.sh BUILD FOLDER: a set of tests that fails ends neither gpu.sh nor the measurements, and marks the results.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder/build/tests/parity" "$folder/results"
for part in bench emulated arch; do ln -s "$build/tests/$part" "$folder/build/tests/$part"; done
printf '#!/bin/sh\nexit 3\n' >"$folder/build/tests/parity/test_parity_cuda"
chmod +x "$folder/build/tests/parity/test_parity_cuda"
status=0
sh "$here/../gpu.sh" --rehearse --folder "$folder/build" --results "$folder/results" tests ceilings || status=$?
[ "$status" -eq 1 ] || { echo "gpu.sh ended with $status, expected 1" >&2; exit 1; }
if ! grep -q '"failed": "ended with 3' "$folder"/results/*[0-9].json || ! grep -q '"gemm"' "$folder"/results/*[0-9].json; then
  echo 'the results do not have both the failure and the ceilings' >&2
  exit 1
fi
