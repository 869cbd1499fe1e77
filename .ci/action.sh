#!/bin/sh
# action.sh KVCAL: the tests of apps/action, of the pre-commit hook and of the pipelines of docs/ci.md, and SARIF against its
# schema. What they need comes from PyPI into an environment of its own, once; without network it says so and leaves
# (exit code 0).
set -eu
cd "$(dirname "$0")/.."
KVCAL=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
export KVCAL
environment=build/action-python
if ! cmp -s tests/action/requirements.txt "$environment/requirements.txt"; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  if ! "$environment/bin/pip" install --quiet --disable-pip-version-check -r tests/action/requirements.txt; then
    rm -rf "$environment"
    echo 'action: SKIPPED: what its tests need is not here, and PyPI cannot be reached'
    exit 0
  fi
  cp tests/action/requirements.txt "$environment"
fi
"$environment/bin/python" tests/action/test_action.py
"$environment/bin/python" tests/action/test_sarif.py
