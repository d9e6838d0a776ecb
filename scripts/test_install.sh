#!/usr/bin/env bash
# test_install.sh PRESET: installs a built preset into a scratch folder and builds programs against
# it: test/programs/consumer, examples/ and the project of README.md by find_package, the consumer
# by pkg-config and by the compiler alone, and, with the sources instead, by FetchContent. CUDA:
# also in a project that enables CUDA before it finds gpufs. Runs them if there is a device. A
# package whose libraries are missing must not be found, and be no error.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
folder=build/install-test/$preset
prefix=$PWD/$folder/prefix
sources=test/programs/consumer
rm -rf "$folder"
cmake --install "build/$preset" --prefix "$prefix" >/dev/null

libdir=$(dirname "$(find "$prefix" -name libgpufs.a)")  # lib, lib64, or Debian's

# The library must not ask its users for headers that only its build needs.
if grep -rlE 'spdlog|fmt/|toml\+\+|boost/lockfree' "$prefix/include" "$libdir/cmake"; then
  echo "the installed package names libraries that only the build of gpufs needs" >&2
  exit 1
fi

for room in owner mapping; do
  if [ -e "$prefix/include/gpufs/gpufs/$room" ]; then
    echo "the installed package has headers of gpufs/$room, which no public header includes" >&2
    exit 1
  fi
done

# build NAME SOURCES ARGUMENT...: configures and builds a project.
build() {
  echo "== $1"
  cmake -S "$2" -B "$folder/$1" -G Ninja "${@:3}" >/dev/null
  cmake --build "$folder/$1"
}
# run PROGRAM: the consumer, if there is a device.
run() {
  if [ "$preset" = cuda ] && ! scripts/gpu_visible.sh; then
    echo "$1: built, not run, no GPU visible"
  else
    "$1" "$PWD/CMakeLists.txt"
  fi
}
installed=(-DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$prefix")

build consumer $sources "${installed[@]}"
run "$folder/consumer/consumer"
run "$folder/consumer/wrapped_consumer"
# The project that README.md shows, and the lines of docs/mapping.md that lead calls to gpufs.
shown=$folder/shown
mkdir -p "$shown"
{
  scripts/document_block.py README.md CMakeLists.txt
  echo "add_executable(program)"
  echo "gpufs_add_kernel_sources(program main.cu)"
  echo "target_link_libraries(program PRIVATE gpufs::gpufs)"
  scripts/document_block.py docs/mapping.md wrapped.cmake
} >"$shown/CMakeLists.txt"
scripts/document_block.py README.md readme_count.cu >"$shown/main.cu"
build from-readme "$shown" "${installed[@]}"
run "$folder/from-readme/mine"
run "$folder/from-readme/program"
build examples examples "${installed[@]}"
if [ "$preset" != cuda ] || scripts/gpu_visible.sh; then
  test/programs/examples.sh "$PWD/$folder/examples"
fi
echo "== optional: not found without liburing, found with it"
for expected in missing found; do
  cmake -S test/programs/optional -B "$folder/optional" "-DCMAKE_PREFIX_PATH=$prefix" \
    -DEXPECTED=$expected >/dev/null
done
if [ "$preset" = cuda ]; then
  build cuda-first $sources "${installed[@]}" "-DLANGUAGES=CXX;CUDA" \
    -DCMAKE_CUDA_ARCHITECTURES=90-virtual
  run "$folder/cuda-first/consumer"
fi

# Without CMake: the lines of README.md.
export PKG_CONFIG_PATH=$libdir/pkgconfig
echo "== pkg-config and the compiler alone"
if [ "$preset" = cuda ]; then
  nvcc=$(scripts/find_nvcc.sh)
  nvcc_flags=(-std=c++20 --expt-relaxed-constexpr -arch=compute_90)
  # shellcheck disable=SC2046  # words
  "$nvcc" "${nvcc_flags[@]}" $sources/main.cu -o "$folder/by-pkg-config" \
    $(pkg-config --cflags --libs gpufs)
  "$nvcc" "${nvcc_flags[@]}" $sources/main.cu -o "$folder/by-compiler" \
    "-I$prefix/include/gpufs" "-L$libdir" -lgpufs -luring
else
  # shellcheck disable=SC2046
  c++ -std=c++20 -O2 -x c++ $sources/main.cu -x none -o "$folder/by-pkg-config" \
    $(pkg-config --cflags --libs gpufs)
  c++ -std=c++20 -O2 -x c++ $sources/main.cu -x none -o "$folder/by-compiler" -DGPUFS_EMULATED=1 \
    "-I$prefix/include/gpufs" "-L$libdir" -lgpufs -luring -lboost_context -lpthread
fi
run "$folder/by-pkg-config"
run "$folder/by-compiler"
version=$(sed -n 's/.*GPUFS_VERSION_STRING "\(.*\)"/\1/p' include/gpufs/version.hpp)
[ "$(pkg-config --modversion gpufs)" = "$version" ]

# From the sources. The flags are those of the preset, so that ccache has most objects. CUDA is only
# configured: a second library would take too long. The project enables CUDA itself, or leaves that
# to gpufs.
if [ "$preset" = cuda ]; then
  for languages in "CXX" "CXX;CUDA"; do
    echo "== fetched, $languages: configured"
    cmake -S $sources -B "$folder/fetched-${languages//;/-}" -G Ninja "-DGPUFS_SOURCES=$PWD" \
      -DGPUFS_DEVICE=cuda "-DLANGUAGES=$languages" -DCMAKE_CUDA_ARCHITECTURES=90-virtual >/dev/null
  done
else
  build fetched $sources "-DGPUFS_SOURCES=$PWD" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1"
  run "$folder/fetched/consumer"
fi
