#!/bin/sh
# run.sh KVCAL: the servers' own loading code on exports and with the plug-ins; 'make test-loaders' calls it.
#
# Needs network, python 3.11 and about 20 GB the first time (REF, by default ~/.cache/kvcal-loaders). Results go to
# tests/loaders/results/<date>.json; what was run before with the same input is not run again as long as build/loaders lies
# there.
set -eu
kvcal=$1
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
export REF="${REF:-$HOME/.cache/kvcal-loaders}" PYTHONDONTWRITEBYTECODE=1
out=$source/build/loaders
mkdir -p "$out"

sh "$here/setup.sh"
for server in vllm sglang; do # from a copy: pip leaves its build folder beside the sources
  rm -rf "$out/package" && cp -r "$source/apps/plugins" "$out/package"
  "$REF/tools/bin/uv" pip uninstall -q --python "$REF/$server/bin/python" "$server-kv-cache-scales" 2>/dev/null || true
  "$REF/tools/bin/uv" pip install -q --reinstall --no-deps --python "$REF/$server/bin/python" "$out/package"
done

"$REF/vllm/bin/python" "$here/make_models.py" "$source/tests/arch/golden" "$out/made"
sh "$here/make_exports.sh" "$kvcal" "$source" "$out/exports" "$out/made"
"$REF/vllm/bin/python" "$here/make_cases.py" "$out/exports" "$out"

failed=0
VLLM_LOGGING_LEVEL=ERROR "$REF/vllm/bin/python" "$here/test_vllm_ranks.py" || failed=1
packages() { "$REF/$1/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))"; }
"$REF/vllm/bin/python" "$here/check_upstream.py" --vllm "$(packages vllm)/vllm" --auto-round "$REF/auto-round/auto_round" \
  --sglang "$(packages sglang)/sglang" --flashinfer "$(packages sglang)/flashinfer" || failed=1
"$REF/tools/bin/uv" pip install -q --python "$REF/vllm/bin/python" ml_dtypes
PYTHON=$REF/vllm/bin/python PIP=$REF/tools/bin/pip sh "$here/check_packages.sh" "$kvcal" "$source" "$out/packages" || failed=1
mkdir -p "$out/sources"
for server in vllm sglang; do
  version=$("$REF/$server/bin/python" -c "import importlib.metadata as m; print(m.version('$server'))")
  ln -sfn "$(packages $server)" "$out/sources/$server-$version"
done
"$REF/vllm/bin/python" "$here/check_cache_types.py" "$kvcal" "$out/sources" || failed=1
"$REF/vllm/bin/python" "$here/check_scale_use.py" "$kvcal" "$out/sources" "$here/results/scale-use-$(date -u +%Y-%m-%d).json" || failed=1
for server in vllm sglang; do
  python3 "$here/run_cases.py" "$server" "$out/cases.json" "$out/$server.json" || failed=1
done
sh "$here/make_folds.sh" "$kvcal" "$source" "$out/folds" "$out/made"
for server in vllm sglang; do
  python3 "$here/check_folds.py" "$server" "$out/folds" || failed=1
done
python3 "$here/check_records.py" "$kvcal" || failed=1
for server in vllm sglang; do
  "$REF/tools/bin/uv" pip install -q --python "$REF/$server/bin/python" ml_dtypes
  "$REF/$server/bin/python" "$here/check_kernels.py" $server "$kvcal" || failed=1
done
python3 "$here/collect.py" "$here/results/$(date -u +%Y-%m-%d).json" "$out/cases.json" "$out/vllm.json" "$out/sglang.json"
exit $failed
