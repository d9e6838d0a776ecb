#!/usr/bin/env bash
# porting.sh PROGRAM: a program of docs/porting.md on a matrix of 1000 rows of 250 floats 1.0. The
# sum of each row is 250. Exit status 77: no device.
set -uo pipefail
file=$(mktemp)
trap 'rm -f "$file"' EXIT
printf '\x00\x00\x80\x3f%.0s' {1..250} >"$file.row"
for _ in {1..1000}; do cat "$file.row"; done >"$file"
rm -f "$file.row"
said=$("$1" "$file" 1000 250 2>&1)
status=$?
echo "$said"
grep -qiE "no device|no CUDA-capable device|driver version is insufficient" <<<"$said" && exit 77
[ $status -eq 0 ] && [ "$said" = "first 250, last 250" ]
