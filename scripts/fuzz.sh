#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET]: builds the fuzz targets of test/fuzz and runs them one after the other,
# for SECONDS in all. daemon_fuzz gets half of the time. With TARGET it runs that one alone. With 0
# seconds it runs the inputs that are known: seeds, and test/fuzz/found.
# Inputs that reach new code stay in build/fuzz/corpus for the next run. The input of a finding is
# left in build/fuzz/findings. The last line is 'N passed, N failed', counted in targets.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
if ! [[ ${1:-} =~ ^[0-9]+$ ]] || [ $# -gt 2 ]; then
  sed -n '2,/^[^#]/s/^# //p' "$0" >&2
  exit 2
fi
seconds=$1

fail() {
  echo "fuzz: $1" >&2
  echo "0 passed, 1 failed"
  exit 1
}
scripts/setup.sh fuzz || fail "there is no clang with libFuzzer here (see above)"
BUILD_TARGET=fuzz_targets nice scripts/build.sh fuzz || fail "the targets do not build"

bin=build/fuzz/bin
targets=()
for target in test/fuzz/*_fuzz.cpp; do targets+=("$(basename "$target" .cpp)"); done
if [ $# -eq 2 ]; then
  targets=("${2%_fuzz}_fuzz")
  [ -x "$bin/${targets[0]}" ] || fail "there is no target $2"
fi

# Seeds of an earlier version would be stale.
rm -rf build/fuzz/seeds
test/fuzz/seeds.py build/fuzz/seeds || fail "no seeds"
mkdir -p build/fuzz/findings
scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpufs-fuzz-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
if [ -w /dev/shm ]; then
  rmdir "$scratch"
  scratch=$(mktemp -d /dev/shm/gpufs-fuzz-XXXXXX)
fi
export GPUFS_FUZZ_DIR=$scratch
export UBSAN_OPTIONS=print_stacktrace=1

# share TARGET: its part of the time.
share() {
  if [ ${#targets[@]} -eq 1 ]; then
    echo "$seconds"
  elif [ "$1" = daemon_fuzz ]; then
    echo $((seconds / 2))
  else
    echo $((seconds / 2 / (${#targets[@]} - 1)))
  fi
}

passed=0
failed=0
for target in "${targets[@]}"; do
  time=$(share "$target")
  limit=(-max_total_time="$time")
  if [ "$time" -eq 0 ]; then limit=(-runs=0); fi
  corpus=build/fuzz/corpus/$target log=build/fuzz/$target.log
  mkdir -p "$corpus" "build/fuzz/seeds/$target"
  known=("build/fuzz/seeds/$target")
  if [ -d "test/fuzz/found/$target" ]; then known+=("test/fuzz/found/$target"); fi
  # The daemon's own lines on stderr would fill the log. Reports are not lost by it.
  if nice "$bin/$target" "${limit[@]}" -timeout=60 -rss_limit_mb=4096 -max_len=4096 \
    -close_fd_mask=2 -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$target-" \
    "$corpus" "${known[@]}" >"$log" 2>&1; then
    passed=$((passed + 1))
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    printf '%-14s %9s runs in %4s s, nothing found\n' "$target" "${runs:-?}" "$time"
  else
    failed=$((failed + 1))
    echo "$target: a finding"
    tail -80 "$log"
    echo "$target: run it again with $bin/$target FILE"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
