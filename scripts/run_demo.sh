#!/usr/bin/env bash
# run_demo.sh: builds the two programs of the demo and runs it. Builds for the GPU if one is visible
# and NVCC names a compiler, else for the emulated device.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=emulated
if [ -n "${NVCC:-}" ] && scripts/gpu_visible.sh; then preset=cuda; fi
BUILD_TARGET="bin/gpufs bin/gpufs-grep" scripts/build.sh "$preset"
exec scripts/demo.sh "build/$preset/bin"
