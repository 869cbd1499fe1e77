#!/bin/sh
# site.sh KVCAL: builds the site into build/site/html and checks its links. MkDocs comes from PyPI into an environment of
# its own, once; without network it says so and leaves (exit code 0). KVCAL_SITE: the address it will have, if known.
set -eu
cd "$(dirname "$0")/.."
kvcal=$1
environment=build/site/python
start=$(date +%s)
if ! cmp -s docs/site/requirements.txt "$environment/requirements.txt"; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  if ! "$environment/bin/pip" install --quiet --disable-pip-version-check -r docs/site/requirements.txt; then
    rm -rf "$environment"
    echo 'site: SKIPPED: MkDocs is not here, and PyPI cannot be reached'
    exit 0
  fi
  cp docs/site/requirements.txt "$environment"
fi
"$environment/bin/python" docs/site/make_pages.py "$kvcal" build/site/pages
NO_MKDOCS_2_WARNING=1 "$environment/bin/mkdocs" build --quiet --strict --clean -f docs/site/mkdocs.yml
"$environment/bin/python" docs/site/check_links.py build/site/html
echo "site: ok, $(($(date +%s) - start)) s: build/site/html"
