#!/usr/bin/env bash
# docs.sh: builds the site of the documents (mkdocs) into build/site, and the reference of the
# public headers (doxygen) into build/site/api. A warning of either is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh docs
mkdir -p build
# mkdocs warns of links to files outside of docs/, which the repository has and the site does not.
# So the site is built of a copy whose links name the repository's files as text.
rm -rf build/site build/site-source
mkdir -p build/site-source
cp -r docs build/site-source/docs
rm build/site-source/docs/Doxyfile
outside='(\.\./)+(include|README\.md|examples|scripts|test)[^)]*'
find build/site-source/docs -name '*.md' -print0 |
  xargs -0 sed -i -E "s#\[([^]]*)\]\($outside\)#\1#g"
sed 's#^site_dir: .*#site_dir: ../site#' mkdocs.yml >build/site-source/mkdocs.yml
mkdocs build --quiet --strict --config-file build/site-source/mkdocs.yml
doxygen docs/Doxyfile
echo "the site is in build/site"
