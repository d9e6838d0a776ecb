#!/usr/bin/env bash
# run_ctest.sh PRESET [ctest argument]...: runs the suites of a built preset.
# The last line is 'N passed, N failed'. It counts CTest tests.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
preset=$1
shift
launcher=()
# ThreadSanitizer cannot map its shadow if the kernel randomises many bits of addresses. The
# launcher switches that off, if it is allowed to.
if [ "$preset" = emulated-tsan ] && setarch -R true 2>/dev/null; then launcher=(setarch -R); fi
# Suites wait a good deal: for timeouts, for disks, for each other's threads. On a GPU they would
# share its memory.
if [ "$preset" != cuda ]; then export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-2}; fi
report=$PWD/build/$preset/ctest.xml
rm -f "$report"
"${launcher[@]}" ctest --preset "$preset" --output-junit "$report" "$@"
status=$?
count() { grep -m1 -o "\b$1=\"[0-9]*\"" "$report" 2>/dev/null | grep -o '[0-9]*'; }
tests=$(count tests) failed=$(count failures) skipped=$(count skipped)
failed=${failed:-0}
if [ $status -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
passed=$((${tests:-0} - failed - ${skipped:-0}))
# Passing tests are not shown, but that the kernel refused io_uring is worth knowing.
said=build/$preset/Testing/Temporary/LastTest.log
without=$(grep -ho 'not tested with io_uring: .*' "$said" 2>/dev/null | sort | uniq -c)
if [ -n "$without" ]; then echo "test cases that fell back to pread alone:"$'\n'"$without"; fi
if [ "${skipped:-0}" -gt 0 ]; then echo "$skipped skipped: what they need is not here"; fi
echo "$((passed > 0 ? passed : 0)) passed, $failed failed"
[ "$failed" -eq 0 ]
