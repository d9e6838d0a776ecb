#!/usr/bin/env bash
# debug_build.sh NVCC SOURCE-TREE: kernels that are compiled for a debugger (nvcc -G) say how much
# stack they need. If ptxas cannot tell, the driver gives each thread 1 KiB, and they end with an
# illegal address (gpufs/base/warp.hpp, far_call).
set -euo pipefail
nvcc=$1 tree=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! "$nvcc" -G -std=c++20 -arch=sm_90 --expt-relaxed-constexpr -I"$tree/include" -I"$tree" \
  -cubin -o "$folder/code" "$tree/test/device/debug_build.cu" >"$folder/log" 2>&1; then
  cat "$folder/log"
  echo "FAILED: does not compile for a debugger"
  exit 1
fi
if grep "Stack size" "$folder/log"; then
  echo "FAILED: the stack of a kernel is not known"
  exit 1
fi
