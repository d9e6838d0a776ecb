#!/usr/bin/env bash
# coverage.sh [LIMIT]: builds preset `coverage`, runs the suites, and writes to build/coverage/ the
# branches of host-daemon, of device code and of the prefetcher that were taken, and those that
# were not. Fails if a suite does, if a sanitizer reports, or if less than LIMIT per cent (90) were
# taken.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh coverage
scripts/build.sh coverage
rm -rf build/coverage/profiles
status=0
# The other tests are of programs that this preset does not build, or run nothing of the library.
scripts/run_ctest.sh coverage -R '_test$|^planted_' -E '^(check_house|machine_order)_test$' ||
  status=1
scripts/coverage_table.py build/coverage build/coverage "${1:-90}"
exit $status
