#!/usr/bin/env bash
# build.sh PRESET...: configures and builds presets.
# CONFIGURE_FLAGS: more arguments for cmake. BUILD_TARGET: the targets to build (default all).
set -euo pipefail
cd "$(dirname "$0")/.."
for preset in "$@"; do
  echo "== build $preset"
  mkdir -p build
  log=build/configure-$preset.log
  # shellcheck disable=SC2086  # several flags in one variable
  cmake --preset "$preset" ${CONFIGURE_FLAGS:-} >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  # shellcheck disable=SC2086  # several targets in one variable
  cmake --build --preset "$preset" --target ${BUILD_TARGET:-all}
done
