#!/usr/bin/env bash
# format.sh [--check]: formats all sources with clang-format 14. With --check it changes nothing,
# names the sources that are not formatted, and fails if there are any.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh format
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run --Werror); fi
# sources: what git has, or is to have. Outside of a git tree all that is not built.
sources() {
  if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
    git ls-files -z --cached --others --exclude-standard -- '*.hpp' '*.cpp' '*.cu' '*.cuh' |
      while read -r -d '' source; do
        if [ -f "$source" ]; then printf '%s\0' "$source"; fi  # a deleted one is still listed
      done
  else
    find . \( -path ./build -o -path './.?*' \) -prune -o \
      -regex '.*\.\(hpp\|cpp\|cu\|cuh\)' -print0
  fi
}
sources | xargs -0 --no-run-if-empty clang-format-14 "${mode[@]}"
