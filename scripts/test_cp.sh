#!/bin/sh
# Copies a tree with gpufs-cp and compares. Usage: test_cp.sh GPUFS_CP TREE
set -eu
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
mkdir "$to/tree"
cp -r "$2/." "$to/tree"
: > "$to/tree/empty"
ln -s empty "$to/tree/link"
mkdir -p "$to/tree/below/here"
ln -s ../../../outside "$to/tree/below/here/leads-out"  # of the tree, and from the copy's place nowhere
ln -s nothing "$to/tree/dangles"
ln -s below "$to/tree/folder"
ln "$to/tree/empty" "$to/tree/below/second-name"
: > "$to/outside"
head -c 20000123 /dev/urandom > "$to/tree/large"  # two pieces, and some bytes
GPUFS_CACHE_SIZE=4M GPUFS_PAGE_SIZE=16K GPUFS_STAGING_SIZE=1M GPUFS_PREFETCH_MEMORY=1M "$1" "$to/tree" "$to/copy"
diff -r --no-dereference "$to/tree" "$to/copy"
[ "$(readlink "$to/copy/link")" = empty ]
[ "$to/copy/empty" -ef "$to/copy/below/second-name" ]
[ ! "$to/copy/empty" -ef "$to/tree/empty" ]
! "$1" "$to/missing" "$to/nowhere" 2> "$to/message"
grep -q 'missing: No such file or directory' "$to/message"
