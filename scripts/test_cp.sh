#!/bin/sh
# Copies a tree with gpufs-cp and compares. Usage: test_cp.sh GPUFS_CP TREE
set -eu
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
mkdir "$to/tree"
cp -r "$2/." "$to/tree"
: > "$to/tree/empty"
ln -s empty "$to/tree/link"
head -c 20000123 /dev/urandom > "$to/tree/large"  # two pieces, and some bytes
GPUFS_CACHE_SIZE=4M GPUFS_PAGE_SIZE=16K GPUFS_STAGING_SIZE=1M GPUFS_PREFETCH_MEMORY=1M "$1" "$to/tree" "$to/copy"
diff -r "$to/tree" "$to/copy"
[ "$(readlink "$to/copy/link")" = empty ]
! "$1" "$to/missing" "$to/nowhere" 2> "$to/message"
grep -q 'missing: No such file or directory' "$to/message"
