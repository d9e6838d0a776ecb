#!/usr/bin/env bash
# find_nvcc.sh: prints the CUDA compiler that CMake would take (CUDACXX, else nvcc on PATH).
# Prints nothing if that does not work.
nvcc=${CUDACXX:-$(command -v nvcc)}
if [ -n "$nvcc" ] && "$nvcc" --version >/dev/null 2>&1; then echo "$nvcc"; fi
