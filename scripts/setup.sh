#!/usr/bin/env bash
# setup.sh [format|ccache|charts|fuzz|coverage|docs|python|nvme]: makes sure that the packages for
# the build are installed. With `format` clang-format is needed, too. With `ccache` it is ccache.
# With `charts` it is matplotlib: `gpufs bench paper` and `gpufs trace` draw with it. With `fuzz` it
# is a clang that links libFuzzer. With `coverage` it is clang, and llvm's tools for its counters.
# With `docs` it is mkdocs and doxygen. With `python` it is what builds and installs the Python
# package. With `nvme` it is QEMU, a static busybox, and a kernel that is only unpacked:
# nvme_qemu_test boots them.
# Installs missing packages of Debian or Ubuntu, as root or through sudo. If it may not, it lists
# them and fails. If no package is missing, it does nothing.
set -euo pipefail

mode=${1:-}
case $mode in
  "" | format | ccache | charts | fuzz | coverage | docs | python | nvme) ;;
  *)
    echo "usage: setup.sh [format|ccache|charts|fuzz|coverage|docs|python|nvme], not $mode" >&2
    exit 2 ;;
esac
missing=()
need_command() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need_command cmake cmake
need_command ninja ninja-build
need_command pkg-config pkg-config
need_command python3 python3  # tests
if [ "${1:-}" = format ]; then need_command clang-format-14 clang-format-14; fi
if [ "${1:-}" = ccache ]; then need_command ccache ccache; fi
if [ "${1:-}" = coverage ]; then
  need_command clang++-16 clang-16
  need_command llvm-cov-16 llvm-16
  clang++-16 -fsanitize=address -fprofile-instr-generate -x c++ -o /dev/null - 2>/dev/null <<<'
    int main() {}' || missing+=(libclang-rt-16-dev)
fi
if [ "${1:-}" = docs ]; then
  need_command mkdocs mkdocs
  need_command doxygen doxygen
fi
if [ "${1:-}" = charts ]; then
  /usr/bin/python3 -c 'import matplotlib' 2>/dev/null || missing+=(python3-matplotlib)
fi
if [ "${1:-}" = python ]; then
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  python3 -c 'import os, sysconfig, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
    missing+=(python3-dev)
fi
if [ "${1:-}" = fuzz ]; then
  clang++ -fsanitize=fuzzer,address,undefined -x c++ -o /dev/null - 2>/dev/null <<<'
    #include <cstddef>
    extern "C" int LLVMFuzzerTestOneInput(unsigned char const*, std::size_t) { return 0; }' ||
    missing+=(clang libclang-rt-dev)
fi
if [ "${1:-}" = nvme ]; then
  need_command qemu-system-x86_64 qemu-system-x86
  need_command xz xz-utils
  if ! command -v busybox >/dev/null 2>&1 || ldd "$(command -v busybox)" >/dev/null 2>&1; then
    missing+=(busybox-static)
  fi
fi
# What is left to do once the packages are there.
finish() { if [ "$mode" = nvme ]; then exec "$(dirname "$0")/nvme_kernel.sh"; fi; }

compiler=${CXX:-c++}
headers=(liburing.h=liburing-dev boost/lockfree/spsc_queue.hpp=libboost-dev
  boost/context/fiber.hpp=libboost-context-dev fmt/format.h=libfmt-dev
  spdlog/spdlog.h=libspdlog-dev nlohmann/json.hpp=nlohmann-json3-dev png.h=libpng-dev
  doctest/doctest.h=doctest-dev toml++/toml.h=libtomlplusplus-dev CLI/CLI.hpp=libcli11-dev)
if command -v "$compiler" >/dev/null 2>&1; then
  probe=""
  for entry in "${headers[@]}"; do
    probe+="#if !__has_include(<${entry%%=*}>)"$'\n'"missing: ${entry##*=}"$'\n'"#endif"$'\n'
  done
  said=$("$compiler" -std=c++20 -E -x c++ - <<<"$probe") || {
    echo "setup: $compiler -std=c++20 fails (above): set CXX to a compiler of C++20 (g++ 12)" >&2
    exit 1
  }
  while read -r package; do missing+=("$package"); done < <(
    sed -n 's/^missing: *//p' <<<"$said" | tr -d ' ')
  for entry in liburing.a=liburing-dev libboost_context.a=libboost-context-dev \
    libpng16.a=libpng-dev libz.a=zlib1g-dev; do
    [ -e "$("$compiler" -print-file-name="${entry%%=*}")" ] || missing+=("${entry##*=}")
  done
else
  missing+=(g++ "${headers[@]##*=}")
fi
if [ ${#missing[@]} -eq 0 ]; then
  finish
  exit 0
fi

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root=(sudo)
  else
    as_root=(false)
  fi
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "${as_root[*]}" = false ]; then
  echo "setup: these packages are missing and this user cannot install them. As root, run" >&2
  echo "  apt-get install ${missing[*]}" >&2
  echo "(names of Debian 12 and Ubuntu 24.04)" >&2
  exit 1
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y --no-install-recommends "${missing[@]}"
finish
