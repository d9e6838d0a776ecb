#!/usr/bin/env bash
# run_demo.sh: builds for the GPU if there is one to run on (and nvcc, named by NVCC), else for the emulated device, and runs the demo.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=emulated
if [ -n "${NVCC:-}" ] && scripts/gpu_visible.sh; then preset=cuda; fi
BUILD_TARGET=programs scripts/build.sh "$preset"
exec scripts/demo.sh "build/$preset/bin"
