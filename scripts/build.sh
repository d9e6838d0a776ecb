#!/usr/bin/env bash
# build.sh PRESET...: configures and builds presets.
# CONFIGURE_FLAGS: more arguments for cmake. BUILD_TARGET: the targets to build (default all).
# CMake keeps such arguments, and the compilers' flags in CXXFLAGS and CUDAFLAGS, for later calls
# without them. So a build folder that was configured with others begins anew.
set -euo pipefail
cd "$(dirname "$0")/.."

# words TEXT: one space between words.
# shellcheck disable=SC2086
words() (set -f; echo $1)

for preset in "$@"; do
  echo "== build $preset"
  mkdir -p "build/$preset"
  log=build/configure-$preset.log
  kept=build/$preset/configure-flags
  flags="CONFIGURE_FLAGS=$(words "${CONFIGURE_FLAGS:-}")"$'\n'"CXXFLAGS=${CXXFLAGS:-}"
  if [ "$preset" = cuda ]; then flags+=$'\n'"CUDAFLAGS=${CUDAFLAGS:-}"; fi
  fresh=()
  if [ -e "build/$preset/CMakeCache.txt" ] && [ "$(cat "$kept" 2>/dev/null)" != "$flags" ]; then
    fresh=(--fresh)
    echo "build/$preset may have been configured with other flags: it is built anew"
    rm -f "$kept"
  fi
  # shellcheck disable=SC2086  # several flags in one variable
  cmake --preset "$preset" ${fresh[@]+"${fresh[@]}"} ${CONFIGURE_FLAGS:-} >"$log" 2>&1 ||
    { cat "$log" >&2; exit 1; }
  printf '%s\n' "$flags" >"$kept"
  # shellcheck disable=SC2086  # several targets in one variable
  cmake --build --preset "$preset" --target ${BUILD_TARGET:-all}
done
