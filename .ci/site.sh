#!/bin/sh
# site.sh KVCAL: builds the site into build/site/html and checks its links. MkDocs comes from PyPI into an environment of
# its own, once; without network it says so and leaves (exit code 0). KVCAL_SITE: the address it will have, if known.
set -eu
cd "$(dirname "$0")/.."
kvcal=$1
environment=build/site/python
start=$(date +%s)
. .ci/python_environment.sh
if ! python_environment $environment docs/site/requirements.txt; then
  echo 'site: SKIPPED: MkDocs is not here, and PyPI cannot be reached'
  exit 0
fi
"$environment/bin/python" docs/site/make_pages.py "$kvcal" build/site/pages
NO_MKDOCS_2_WARNING=1 "$environment/bin/mkdocs" build --quiet --strict --clean -f docs/site/mkdocs.yml
"$environment/bin/python" docs/site/check_links.py build/site/html
echo "site: ok, $(($(date +%s) - start)) s: build/site/html"
