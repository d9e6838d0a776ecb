#!/usr/bin/env bash
# run-gpu-suites [doctest argument]...: runs every test program of its own folder on the GPU of this
# machine. It needs nothing but that folder. The last line is 'N passed, N failed', of suites.
# The exit status is not 0 if a suite failed or if no suite with kernels could run.
set -uo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
passed=0
failed=0
skipped=0
for suite in "$folder"/*_test; do
  [ -x "$suite" ] || continue
  name=${suite##*/}
  echo "== $name"
  timeout 600 "$suite" "$@"
  status=$?
  case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    124) failed=$((failed + 1)) && echo "FAILED: $name did not end within 600 s" ;;
    *) failed=$((failed + 1)) && echo "FAILED: $name (exit status $status)" ;;
  esac
done
if [ $skipped -gt 0 ]; then
  echo "no GPU visible: $skipped suites could not run"
  failed=$((failed + skipped))
elif [ $((passed + failed)) -eq 0 ]; then
  echo "no suites in $folder: build the cuda preset with GPUFS_BUILD_TESTS=ON"
  failed=1
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
