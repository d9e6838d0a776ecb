#!/usr/bin/env bash
# format.sh [--check]: formats all sources with clang-format 14. With --check it changes nothing,
# names the sources that are not formatted, and fails if there are any.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh format
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run --Werror); fi
find . \( -path ./build -o -path './.?*' \) -prune -o -regex '.*\.\(hpp\|cpp\|cu\|cuh\)' -print0 |
  xargs -0 --no-run-if-empty clang-format-14 "${mode[@]}"
