#!/bin/sh
# run.sh text|arch|weights|verdicts|fold DRIVER [OPTION...]: a differential test, with PYTHON when that is set, otherwise in a
# virtual environment that is made from requirements.txt; for text and verdicts in ones of their own without torch, which
# they do not need.
set -eu
here=$(dirname "$0")
name=$1
shift
wanted=.
made=build/reference-torch
case $name in
text)
    wanted='^(jinja2|protobuf|sentencepiece|tokenizers|transformers)=='
    made=build/reference
    ;;
verdicts)
    wanted='^(ml_dtypes|numpy)=='
    made=build/reference-numpy
    ;;
esac
python=${PYTHON:-}
if [ -z "$python" ]; then
    python=$made/bin/python
    mkdir -p "$made"
    grep -v '^#' "$here/requirements.txt" | grep -E "$wanted" >"$made/wanted.txt"
    if ! cmp -s "$made/wanted.txt" "$made/complete"; then  # other ones are there, or an attempt was interrupted
        python3 -m venv "$made"
        "$python" -m pip install --quiet --requirement "$made/wanted.txt"
        cp "$made/wanted.txt" "$made/complete"
    fi
fi
RUST_BACKTRACE=0 exec "$python" "$here/$name/differential.py" "$@"
