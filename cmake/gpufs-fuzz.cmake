# Fuzz targets: each test/fuzz/NAME_fuzz.cpp becomes a program of that name, of libFuzzer, which
# needs clang. scripts/fuzz.sh builds and runs them. The target `fuzz_targets` builds them all.
include(CheckCXXSourceCompiles)

set(CMAKE_REQUIRED_FLAGS "-fsanitize=fuzzer,address,undefined")
check_cxx_source_compiles("#include <cstddef>
  #include <cstdint>
  extern \"C\" int LLVMFuzzerTestOneInput(std::uint8_t const*, std::size_t) { return 0; }"
  GPUFS_LINKS_FUZZER)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT GPUFS_LINKS_FUZZER)
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} cannot link -fsanitize=fuzzer: install clang and "
    "libclang-rt-dev (scripts/setup.sh fuzz), or set CMAKE_CXX_COMPILER to another clang++")
endif()

# The parsers of the applications. They are compiled without the kernels.
gpufs_find_headers(CLI11 CLI/CLI.hpp libcli11-dev)
add_library(fuzzed_apps STATIC
  apps/bench/apps_table.cpp
  apps/common/build_facts.cpp apps/common/durable.cpp apps/common/file_io.cpp
  apps/common/free_space.cpp
  apps/common/host_file.cpp apps/common/program.cpp apps/common/progress.cpp
  apps/common/script.cpp apps/common/temp_file.cpp apps/common/unfinished_file.cpp
  apps/harness/data_set.cpp apps/harness/extras.cpp apps/harness/real_input.cpp
  apps/mosaic/database.cpp apps/mosaic/lsh_file.cpp apps/mosaic/lsh_index.cpp
  apps/mosaic/reference.cpp apps/mosaic/synthetic.cpp apps/ports/bfs_graph.cpp)
gpufs_add_commit(fuzzed_apps)
target_link_libraries(fuzzed_apps PUBLIC gpufs gpufs::fmt PRIVATE gpufs::CLI11)

set(old_clang -include ${PROJECT_SOURCE_DIR}/test/fuzz/old_clang.hpp)
target_compile_options(gpufs PUBLIC ${old_clang})

add_custom_target(fuzz_targets)
file(GLOB fuzz_sources CONFIGURE_DEPENDS test/fuzz/*_fuzz.cpp)
foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM name)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE fuzzed_apps gpufs gpufs::fmt)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzz_targets ${name})
endforeach()
