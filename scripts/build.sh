#!/usr/bin/env bash
# build.sh PRESET...: configures and builds presets.
# CONFIGURE_FLAGS: more arguments for cmake. BUILD_TARGET: the targets to build (default all).
# CMake keeps such arguments, and the compilers' flags in CXXFLAGS and CUDAFLAGS, for later calls
# without them. So a build folder that was configured with others begins anew.
set -euo pipefail
cd "$(dirname "$0")/.."

# cached VARIABLE: its value in the cache of the preset.
cached() { sed -n "s/^$1:[A-Z]*=//p" "build/$preset/CMakeCache.txt"; }
# words TEXT: one space between words.
# shellcheck disable=SC2086
words() (set -f; echo $1)
# may_be_of_these_flags: whether a folder without configure-flags could have been configured so.
may_be_of_these_flags() {
  local flag name
  for flag in ${CONFIGURE_FLAGS:-}; do
    [[ $flag == -D*=* ]] || continue
    name=${flag#-D}
    name=${name%%=*}
    [ "$(cached "${name%%:*}")" = "${flag#*=}" ] || return 1
  done
  [[ ${CONFIGURE_FLAGS:-} == *CMAKE_CXX_FLAGS=* ]] ||
    [ "$(cached CMAKE_CXX_FLAGS)" = "${CXXFLAGS:-}" ] || return 1
  [ "$preset" != cuda ] || [[ ${CONFIGURE_FLAGS:-} == *CMAKE_CUDA_FLAGS=* ]] ||
    [ "$(cached CMAKE_CUDA_FLAGS)" = "${CUDAFLAGS:-}" ]
}

for preset in "$@"; do
  echo "== build $preset"
  mkdir -p "build/$preset"
  log=build/configure-$preset.log
  kept=build/$preset/configure-flags
  flags="CONFIGURE_FLAGS=$(words "${CONFIGURE_FLAGS:-}")"$'\n'"CXXFLAGS=${CXXFLAGS:-}"
  if [ "$preset" = cuda ]; then flags+=$'\n'"CUDAFLAGS=${CUDAFLAGS:-}"; fi
  fresh=()
  if [ -e "$kept" ]; then
    if [ "$(<"$kept")" != "$flags" ]; then fresh=(--fresh); fi
  elif [ -e "build/$preset/CMakeCache.txt" ] && ! may_be_of_these_flags; then
    fresh=(--fresh)
  fi
  if [ ${#fresh[@]} -ne 0 ]; then
    echo "build/$preset was configured with other flags: it is built anew"
    rm -f "$kept"
  fi
  # shellcheck disable=SC2086  # several flags in one variable
  cmake --preset "$preset" ${fresh[@]+"${fresh[@]}"} ${CONFIGURE_FLAGS:-} >"$log" 2>&1 ||
    { cat "$log" >&2; exit 1; }
  printf '%s\n' "$flags" >"$kept"
  # shellcheck disable=SC2086  # several targets in one variable
  cmake --build --preset "$preset" --target ${BUILD_TARGET:-all}
done
