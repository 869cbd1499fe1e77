#!/bin/sh
# run.sh DRIVER: the differential test, with PYTHON when that is set, otherwise in a virtual environment that is made in
# build/reference from requirements.txt (without torch, which the templates and tokenizers do not need).
set -eu
here=$(dirname "$0")
python=${PYTHON:-}
if [ -z "$python" ]; then
    python=build/reference/bin/python
    if [ ! -x "$python" ]; then
        python3 -m venv build/reference
        grep -E '^(jinja2|tokenizers|transformers)==' "$here/../requirements.txt" >build/reference/wanted.txt
        "$python" -m pip install --quiet --requirement build/reference/wanted.txt
    fi
fi
RUST_BACKTRACE=0 exec "$python" "$here/differential.py" "$@"
