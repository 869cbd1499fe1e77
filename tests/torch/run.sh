#!/bin/sh
# run.sh KVCAL [CASE...]: kvcal.torch against the program. With PYTHON when that is set, otherwise in a virtual
# environment with what the goldens were made with.
set -eu
here=$(dirname "$0")
export KVCAL="$1"
shift
python=${PYTHON:-}
if [ -z "$python" ]; then
    . .ci/python_environment.sh
    python=build/torch-python/bin/python
    python_environment build/torch-python tests/reference/requirements.txt
fi
"$python" "$here/test_kvstats.py"
"$python" "$here/test_observe.py"
[ $# -gt 0 ] || "$python" "$here/compare_pictures.py"
"$python" "$here/test_states.py"
"$python" "$here/compare_states.py" "$@"
exec "$python" "$here/compare_goldens.py" "$@"
