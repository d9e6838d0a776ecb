#!/usr/bin/env bash
# gpu_visible.sh: succeeds where there is an NVIDIA GPU to run on.
{ nvidia-smi -L | grep -q '^GPU '; } 2>/dev/null || compgen -G '/dev/nvidia[0-9]*' >/dev/null
