#!/usr/bin/env bash
# test_install.sh PRESET: installs a built preset into a scratch folder and builds
# test/programs/consumer against it. Runs the consumer if there is a device for it.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
folder=build/install-test/$preset
rm -rf "$folder"
cmake --install "build/$preset" --prefix "$folder/prefix" >/dev/null
cmake -S test/programs/consumer -B "$folder/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$PWD/$folder/prefix" >/dev/null
cmake --build "$folder/consumer"
if [ "$preset" = cuda ] && ! scripts/gpu_visible.sh; then
  echo "consumers built; not run, no GPU visible"
else
  "$folder/consumer/consumer" "$folder/consumer/CMakeCache.txt"
  "$folder/consumer/wrapped_consumer" "$folder/consumer/CMakeCache.txt"
fi
