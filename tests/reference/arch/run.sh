#!/bin/sh
# run.sh DRIVER [OPTION...]: the differential test, with PYTHON when that is set, otherwise in a virtual environment that is
# made in build/reference-arch from requirements.txt.
set -eu
here=$(dirname "$0")
python=${PYTHON:-}
if [ -z "$python" ]; then
    python=build/reference-arch/bin/python
    if [ ! -x "$python" ]; then
        python3 -m venv build/reference-arch
        "$python" -m pip install --quiet --requirement "$here/../requirements.txt"
    fi
fi
exec "$python" "$here/differential.py" "$@"
