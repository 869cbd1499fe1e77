#!/bin/sh
# action.sh KVCAL: the tests of apps/action, of the pre-commit hook and of the pipelines of docs/ci.md, and SARIF against its
# schema. What they need comes from PyPI into an environment of its own, once; without network it says so and leaves
# (exit code 0).
set -eu
cd "$(dirname "$0")/.."
KVCAL=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
export KVCAL
environment=build/action-python
. .ci/python_environment.sh
if ! python_environment $environment tests/action/requirements.txt; then
  echo 'action: SKIPPED: what its tests need is not here, and PyPI cannot be reached'
  exit 0
fi
"$environment/bin/python" tests/action/test_action.py
"$environment/bin/python" tests/action/test_sarif.py
