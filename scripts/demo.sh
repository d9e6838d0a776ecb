#!/usr/bin/env bash
# demo.sh BIN_DIR [WORD] [DIR]: shows what gpufs does on this machine, with the programs in BIN_DIR.
# Counts a word in a tree of files from a kernel and compares every count with grep's. Then reads a
# file sequentially and checks its bytes against pread. Fails if anything differs.
# WORD and DIR may also be set in the environment. The defaults are define and /usr/include.
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 3 ] || [ ! -x "$1/gpufs-grep" ]; then
  echo "usage: $0 BIN_DIR [WORD] [DIR], with gpufs and gpufs-grep in BIN_DIR" >&2
  exit 2
fi
bin=$1
word=${2:-${WORD:-define}}
dir=${3:-${DIR:-/usr/include}}
[ -d "$dir" ] || { echo "demo: DIR=$dir: must be a folder" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$bin/gpufs" info | sed -n 1,2p

echo
echo "== counting lines with the word '$word' in all files below $dir, from a kernel"
# 1: no line matches. 2: some file could not be read, for which grep is asked too.
status=0
"$bin/gpufs-grep" -- "$word" "$dir" >"$work/gpufs" 2>"$work/said" || status=$?
cat "$work/said"
[ $status -le 2 ] || exit $status
LC_ALL=C sort "$work/gpufs" >"$work/gpufs.sorted"
grep_status=0
LC_ALL=C grep -r -a -c -w -F -e "$word" -- "$dir" >"$work/grep" 2>"$work/grep.said" ||
  grep_status=$?
LC_ALL=C sort "$work/grep" >"$work/grep.sorted"
if [ $status -ne $grep_status ]; then
  echo "DIFFERENT from grep: exit status $status, not $grep_status"
  exit 1
elif cmp -s "$work/gpufs.sorted" "$work/grep.sorted"; then
  echo "equal to 'LC_ALL=C grep -r -a -c -w -F $word $dir':" \
    "the counts of all $(wc -l <"$work/gpufs") files"
else
  echo "DIFFERENT from grep (< gpufs-grep, > grep):"
  diff "$work/gpufs.sorted" "$work/grep.sorted" | head -20
  exit 1
fi

# The largest file of what a machine with compilers has, of DIR otherwise.
file=$(find -L /usr/lib/gcc /usr/libexec/gcc "$dir" -maxdepth 3 -type f -readable \
  -printf '%s\t%p\n' 2>/dev/null |
  sort -k1,1nr | sed -n '1{s/^[0-9]*\t//;p;q}') || true
[ -n "$file" ] || { echo "demo: no file to read below $dir" >&2; exit 1; }
echo
echo "== reading $file sequentially from a kernel, and checking every byte against pread"
"$bin/gpufs" bench seq --file "$file" --runs 3 | sed -n '/GB\/s/p;/verified/p'
