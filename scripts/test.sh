#!/usr/bin/env bash
# test.sh: builds, and runs every suite on the emulated device. Runs all again on the GPU if one is
# visible. NVCC: the CUDA compiler, or empty. The last line is 'N passed, N failed' over all runs.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
passed=0
failed=0
lines=()

# run PRESET WHERE: a preset's suites; a variant that does not build counts as one failure.
run() {
  local log=build/test-$1.log counts
  echo "== test $1, on $2"
  scripts/run_ctest.sh "$1" | tee "$log"
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1)
  lines+=("$2: $counts")
  passed=$((passed + ${counts%% *}))
  counts=${counts#*, }
  failed=$((failed + ${counts%% *}))
}
build() {
  scripts/build.sh "$1" && return
  lines+=("$1: does not build")
  failed=$((failed + 1))
  return 1
}

build emulated && run emulated "the emulated device"
if [ -z "${NVCC:-}" ]; then
  lines+=("GPU: not tested, no working nvcc on PATH")
elif build cuda; then
  if scripts/gpu_visible.sh; then
    run cuda "the GPU"
  else
    lines+=("GPU: not tested, none visible here (the CUDA variant was built)")
  fi
fi
echo "== summary"
printf '%s\n' "${lines[@]}" "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
