# Test programs: each test/*/NAME_test.{cpp,cu} becomes one doctest program and one CTest test
# NAME_test. emulated_*_test are for the emulated device only, cuda_*_test for CUDA only. Programs
# with a planted bug show that the sanitizers see it. The folders of test/ are those of the code
# under test; test/programs holds tests of whole programs.
gpufs_find_headers(doctest doctest/doctest.h doctest-dev)

# Linked into every suite: main() and test/support. For suites with kernels, main() checks that
# there is a device.
file(GLOB support_sources CONFIGURE_DEPENDS test/support/*.cpp test/support/*.cu)
list(FILTER support_sources EXCLUDE REGEX "/main\\.cpp$")
foreach(kind host device)
  add_library(test_main_${kind} OBJECT test/support/main.cpp)
  target_link_libraries(test_main_${kind} PUBLIC gpufs gpufs::doctest PRIVATE gpufs_warnings)
endforeach()
target_compile_definitions(test_main_device PRIVATE GPUFS_TEST_NEEDS_DEVICE)
add_library(test_support STATIC)
gpufs_add_sources(test_support ${support_sources})
target_link_libraries(test_support PUBLIC gpufs gpufs::doctest gpufs::fmt PRIVATE gpufs_warnings)
if(GPUFS_COVERAGE)
  target_compile_definitions(test_support PUBLIC GPUFS_COVERAGE=1)
endif()

# What the suites of test/history share.
file(GLOB history_sources CONFIGURE_DEPENDS test/history/*.cpp test/history/*.cu)
list(FILTER history_sources EXCLUDE REGEX "_test\\.(cpp|cu)$")
add_library(test_history STATIC)
gpufs_add_sources(test_history ${history_sources})
target_link_libraries(test_history PUBLIC test_support PRIVATE gpufs_warnings)

# Functions before those of the C library that change files. They note each change. One build is
# linked into suites, the other is preloaded into programs.
add_library(test_file_calls OBJECT
  test/crash/file_calls.cpp test/crash/memory_log.cpp test/crash/crash_disk.cpp)
target_link_libraries(test_file_calls PUBLIC gpufs PRIVATE gpufs_warnings)
if(GPUFS_DEVICE STREQUAL "emulated")
  add_library(gpufs_crash_log SHARED test/crash/file_calls.cpp test/crash/file_log.cpp)
  target_include_directories(gpufs_crash_log PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(gpufs_crash_log PRIVATE gpufs_warnings)
  set_target_properties(gpufs_crash_log PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
endif()

# gpufs_refuse_calls(<target>): the linker leads the calls of test/refusals/calls.txt to functions
# that can refuse them.
function(gpufs_refuse_calls target)
  set(list ${PROJECT_SOURCE_DIR}/test/refusals/calls.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} calls REGEX " refuse$")
  foreach(call IN LISTS calls)
    string(REPLACE " refuse" "" symbol ${call})
    target_link_options(${target} PRIVATE LINKER:--wrap=${symbol})
  endforeach()
  target_sources(${target} PRIVATE test/refusals/refused_calls.cpp)
  target_link_libraries(${target} PRIVATE gpufs::uring)
endfunction()

set(test_environment
  "TSAN_OPTIONS=second_deadlock_stack=1" "ASAN_OPTIONS=detect_stack_use_after_return=0"
  "UBSAN_OPTIONS=print_stacktrace=1")

# Seconds, the end of a test that hangs. With sanitizers some tests take five minutes.
if(GPUFS_SANITIZE OR GPUFS_COVERAGE)
  set(test_timeout 1800)
else()
  set(test_timeout 900)
endif()

set(profiles ${PROJECT_BINARY_DIR}/profiles)  # with GPUFS_COVERAGE

# Suites wait more than they compute. With -O2 they take half as long again to compile.
set(quick_to_compile -O1)

file(GLOB suites CONFIGURE_DEPENDS test/*/*_test.cpp test/*/*_test.cu)
if(GPUFS_DEVICE STREQUAL "emulated")
  list(FILTER suites EXCLUDE REGEX "/cuda_[^/]*$")
else()
  list(FILTER suites EXCLUDE REGEX "/emulated_[^/]*$")
endif()
if(NOT TARGET app_gpufs)
  # They run programs, or have sources of them.
  list(FILTER suites EXCLUDE REGEX "/(tune|trace_sums|emulated_programs_crash)_test[^/]*$")
endif()
# They link the code that the programs share.
set(suites_of_apps
  "/(baseline|drain_on_signal|grep|host_reads|nvme_selftest|options|stress|unfinished_file)_[^/]*$")
if(NOT TARGET gpufs_apps_common)
  list(FILTER suites EXCLUDE REGEX "${suites_of_apps}")
endif()
if(NOT TARGET gpufs_ports)
  list(FILTER suites EXCLUDE REGEX "/(analytics|ports|mosaic)_[^/]*$")
endif()
foreach(suite IN LISTS suites)
  cmake_path(GET suite STEM name)
  set(kind host)
  if(suite MATCHES "\\.cu$")
    set(kind device)
  endif()
  add_executable(${name})
  gpufs_add_sources(${name} ${suite})
  gpufs_set_up_program(${name})
  if(GPUFS_DEVICE STREQUAL "emulated" AND NOT GPUFS_COVERAGE)
    target_compile_options(${name} PRIVATE ${quick_to_compile})
  endif()
  target_link_libraries(${name} PRIVATE test_main_${kind} test_support gpufs_cli gpufs::CLI11)
  if(name MATCHES "^(history|write_crash)_")
    target_link_libraries(${name} PRIVATE test_history)
  endif()
  if(name MATCHES "^write_crash_")
    target_link_libraries(${name} PRIVATE test_file_calls)
  endif()
  if(name MATCHES "^(crash_disk|emulated_programs_crash)_")
    target_sources(${name} PRIVATE test/crash/crash_disk.cpp)
  endif()
  if(name MATCHES "^emulated_((system|shared)_calls|shared_(files|spill))_test$")
    gpufs_refuse_calls(${name})
  endif()
  if(name STREQUAL "shared_midway_test")
    target_link_options(${name} PRIVATE LINKER:--wrap=lseek,--wrap=fallocate)
  endif()
  if(name STREQUAL "nvme_conformance_test")
    target_sources(${name} PRIVATE ${nvme_conformance_sources})
  endif()
  if(name MATCHES "^nvme_(conformance|queue)_test$")
    target_sources(${name} PRIVATE test/nvme/software_drive.cpp)
  endif()
  if(name MATCHES "^wrapped_io_")
    gpufs_wrap_io(${name})
  endif()
  if(suite MATCHES "${suites_of_apps}")
    target_link_libraries(${name} PRIVATE gpufs_apps_common)
  endif()
  if(name MATCHES "^(ports|mosaic)_")
    target_link_libraries(${name} PRIVATE gpufs_ports)
  endif()
  if(name MATCHES "^analytics_")
    target_link_libraries(${name} PRIVATE gpufs_analytics)
  endif()
  if(name STREQUAL "grep_test")
    target_sources(${name} PRIVATE apps/gpufs-grep/verify.cpp)
  endif()
  if(name STREQUAL "nvme_selftest_test")
    gpufs_add_sources(${name} apps/gpufs/nvme_selftest.cu apps/gpufs/nvme_controllers.cpp)
  endif()
  if(name STREQUAL "trace_sums_test")
    target_sources(${name} PRIVATE apps/gpufs/trace_lines.cpp apps/gpufs/trace_sums.cpp)
    target_link_libraries(${name} PRIVATE gpufs::nlohmann_json)
  endif()
  if(name MATCHES "^mosaic_")  # all of the program but its main()
    file(GLOB sources CONFIGURE_DEPENDS apps/mosaic/*.cpp apps/mosaic/*.cu)
    list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
    gpufs_add_sources(${name} ${sources})
  endif()
  if(name MATCHES "^stress_")  # all of the program but its main()
    file(GLOB sources CONFIGURE_DEPENDS apps/gpufs-stress/*.cpp apps/gpufs-stress/*.cu)
    list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
    gpufs_add_sources(${name} ${sources})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  # 77: the suite needs a device and there is none.
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${test_timeout} LABELS ${kind} SKIP_RETURN_CODE 77
    ENVIRONMENT "${test_environment};LLVM_PROFILE_FILE=${profiles}/${name}-%m%c.profraw")
endforeach()

# Suites of shared memory once more, where CPU and emulated device have memory of their own at
# shared addresses, as with a GPU. The code that asks which of the two it is comes before gpufs's.
if(GPUFS_DEVICE STREQUAL "emulated")
  file(GLOB separate_sources CONFIGURE_DEPENDS
    gpufs/mapping/address_space*.cpp gpufs/mapping/block_*.cpp)
  add_library(test_separate_sides OBJECT ${separate_sources} gpufs/owner/shared_memory.cpp
    gpufs/device/emulated/shared_range.cpp gpufs/device/emulated/call_ends.cpp)
  target_compile_definitions(test_separate_sides PUBLIC GPUFS_SEPARATE_SIDES)
  target_link_libraries(test_separate_sides PUBLIC gpufs gpufs::fmt PRIVATE gpufs_warnings)
  foreach(suite glimpses programs streams)
    set(name separate_${suite}_test)
    add_executable(${name} test/mapping/shared_${suite}_test.cu)
    gpufs_set_up_program(${name})
    if(NOT GPUFS_COVERAGE)
      target_compile_options(${name} PRIVATE ${quick_to_compile})
    endif()
    target_link_libraries(${name} PRIVATE
      test_separate_sides test_main_device test_support gpufs_cli gpufs::CLI11)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES
      TIMEOUT ${test_timeout} LABELS device SKIP_RETURN_CODE 77
      ENVIRONMENT "${test_environment};LLVM_PROFILE_FILE=${profiles}/${name}-%m%c.profraw")
  endforeach()
endif()

# Suites of shared memory once more, with accesses caught by userfaultfd. Where that is not
# permitted they are skipped. A profile has its program's name. ThreadSanitizer does not know that
# a thread was stopped and went on.
if(GPUFS_DEVICE STREQUAL "emulated" AND NOT GPUFS_SANITIZE STREQUAL "thread")
  foreach(suite
      shared_memory shared_threads shared_programs shared_file_programs shared_file_threads
      shared_tiers shared_spill shared_pins shared_mixed shared_midway separate_glimpses
      separate_programs separate_streams emulated_shared_files)
    set(name userfault_${suite}_test)
    add_test(NAME ${name} COMMAND ${suite}_test)
    set_tests_properties(${name} PROPERTIES
      TIMEOUT ${test_timeout} LABELS device SKIP_RETURN_CODE 77
      ENVIRONMENT "${test_environment};GPUFS_FAULT_HANDLER=userfault;\
LLVM_PROFILE_FILE=${profiles}/${suite}_test-userfault-%m%c.profraw")
  endforeach()
endif()

if(TARGET tune_test)
  add_dependencies(tune_test app_gpufs)
endif()
if(TARGET emulated_programs_crash_test)
  add_dependencies(emulated_programs_crash_test
    gpufs_crash_log app_gpufs app_gpufs-cp app_mosaic)
endif()
# gpufs_test(<name> <label> <command>...): a test of a whole program.
# gpufs_test_or_skip(): the same. Exit status 77 says that what it needs is not here.
function(gpufs_test name label)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${test_timeout} LABELS ${label} ENVIRONMENT "${test_environment}")
endfunction()
function(gpufs_test_or_skip name)
  gpufs_test(${name} ${ARGN})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
set(program_tests ${PROJECT_SOURCE_DIR}/test/programs)

if(TARGET app_gpufs)
  set(gpufs_program $<TARGET_FILE:app_gpufs>)
  # What the studies of `gpufs bench` write.
  gpufs_test_or_skip(bench_studies device ${program_tests}/bench_studies.sh ${gpufs_program})
  gpufs_test_or_skip(nvme_command device ${program_tests}/nvme_command.sh ${gpufs_program})
  # The figures of `gpufs bench mapping` and `gpufs bench bam`.
  if(TARGET app_gpufs-mapping)
    gpufs_test_or_skip(bench_mapping device ${program_tests}/bench_mapping.sh ${gpufs_program})
  endif()
  if(TARGET app_gpufs-graph)
    gpufs_test_or_skip(bench_bam device ${program_tests}/bench_bam.sh ${gpufs_program})
  endif()
  if(GPUFS_DEVICE STREQUAL "emulated")
    # The page of settings is what the table says.
    gpufs_test(settings_page host ${program_tests}/settings_page.sh ${gpufs_program}
      ${PROJECT_SOURCE_DIR}/docs/settings.md)
    # What `gpufs info` says of settings.
    gpufs_test(info_program device ${program_tests}/info_program.sh ${gpufs_program})
    # What `gpufs trace` says of traces.
    gpufs_test(trace_program device ${program_tests}/trace_program.sh ${gpufs_program})
    # What each row of `gpufs bench patterns` reads from the host.
    gpufs_test_or_skip(bench_patterns device ${program_tests}/bench_patterns.sh ${gpufs_program})
    # The rows of `gpufs bench nvme`, and what they count.
    gpufs_test_or_skip(bench_nvme device ${program_tests}/bench_nvme.sh ${gpufs_program})
    gpufs_test_or_skip(peers_kvikio host ${program_tests}/peers_kvikio.sh
      ${PROJECT_SOURCE_DIR}/scripts/peers_kvikio.py)
  endif()
endif()
# The C interface, by a program that the C compiler compiles. It has no counters of clang.
if(NOT GPUFS_COVERAGE)
  enable_language(C)
  add_executable(c_api test/programs/c_api.c)
  set_target_properties(c_api PROPERTIES C_STANDARD 11 LINKER_LANGUAGE CXX)
  target_compile_options(c_api PRIVATE -Wall -Wextra)
  target_link_libraries(c_api PRIVATE gpufs)
  gpufs_test_or_skip(c_api device c_api ${PROJECT_BINARY_DIR}/c_api.data)
endif()
# gpufs-cp copies a tree, and diff finds nothing.
if(TARGET app_gpufs-cp AND GPUFS_DEVICE STREQUAL "emulated")
  gpufs_test(cp_tree device ${PROJECT_SOURCE_DIR}/scripts/test_cp.sh $<TARGET_FILE:app_gpufs-cp>
    ${PROJECT_SOURCE_DIR}/test)
endif()
if(TARGET app_gpufs-grep AND GPUFS_DEVICE STREQUAL "emulated")
  gpufs_test(grep_program device ${program_tests}/grep_program.sh $<TARGET_FILE:app_gpufs-grep>)
endif()

# Programs of the papers on shared memory, hand-written and by all protocols.
if(TARGET app_gpufs-mapping)
  foreach(name IN ITEMS mapping_workloads mapping_files)
    gpufs_test_or_skip(${name} device ${program_tests}/${name}.sh $<TARGET_FILE:app_gpufs-mapping>)
  endforeach()
endif()

# The analytics programs in all variants.
if(TARGET gpufs_analytics)
  foreach(name IN ITEMS graph lookups taxi vectoradd)
    gpufs_test_or_skip(${name}_program device ${program_tests}/${name}_program.sh
      $<TARGET_FILE:app_gpufs-${name}>)
  endforeach()
endif()

if(TARGET app_gpufs AND GPUFS_DEVICE STREQUAL "emulated" AND NOT GPUFS_SANITIZE)
  gpufs_add_nvme_guest()
endif()

# A few rounds of gpufs-stress. Of these seeds, some are wide, some rounds fork, some are killed.
if(TARGET app_gpufs-stress AND GPUFS_DEVICE STREQUAL "emulated")
  gpufs_test(stress_rounds device app_gpufs-stress --time 8s --rounds 6 --seed 6 --hang 300)
  # A round that hangs, and a supervisor that is ended.
  gpufs_test(stress_ends device ${program_tests}/stress_ends.sh $<TARGET_FILE:app_gpufs-stress>)
  foreach(option hang longest-round)
    gpufs_test(stress_${option}_is_number host app_gpufs-stress --rounds 1 --${option} nan)
    set_tests_properties(stress_${option}_is_number PROPERTIES
      PASS_REGULAR_EXPRESSION "--${option}=nan: must be from 0.001 to 1000000 seconds")
  endforeach()
endif()

# The rules of the tree: a planted violation of each is reported.
find_program(GPUFS_PYTHON3 python3)
mark_as_advanced(GPUFS_PYTHON3)
if(GPUFS_PYTHON3)
  gpufs_test(check_house_test host ${GPUFS_PYTHON3} ${PROJECT_SOURCE_DIR}/test/check_house/run.py)
endif()

# No call of the library is missing in the list of those that are refused. Sanitizers add symbols.
if(GPUFS_PYTHON3 AND GPUFS_DEVICE STREQUAL "emulated" AND NOT GPUFS_SANITIZE)
  gpufs_test(system_calls_are_listed host ${GPUFS_PYTHON3}
    ${PROJECT_SOURCE_DIR}/test/refusals/listed.py ${CMAKE_NM} $<TARGET_FILE:gpufs>
    ${PROJECT_SOURCE_DIR}/test/refusals/calls.txt)
endif()

# The order of accesses in machine code, for the architectures that a release has. The machine code
# is the same in all variants of the build, so the sanitizers' variants skip this.
if(GPUFS_DEVICE STREQUAL "cuda")
  set(GPUFS_NVCC ${CMAKE_CUDA_COMPILER})
else()
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/find_nvcc.sh
    OUTPUT_VARIABLE GPUFS_NVCC OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(GPUFS_NVCC AND NOT GPUFS_SANITIZE)
  gpufs_test(debug_build_test host ${PROJECT_SOURCE_DIR}/test/device/debug_build.sh ${GPUFS_NVCC}
    ${PROJECT_SOURCE_DIR})
endif()
if(GPUFS_PYTHON3 AND GPUFS_NVCC AND NOT GPUFS_SANITIZE)
  string(REGEX MATCHALL "[0-9]+" architectures "${gpufs_cuda_architectures}")
  gpufs_test(machine_order_test host ${GPUFS_PYTHON3}
    ${PROJECT_SOURCE_DIR}/test/device/machine_order.py ${GPUFS_NVCC} ${PROJECT_SOURCE_DIR}
    ${architectures})
endif()

# The applications' programs in every mode, the study of them, and real input files if they have
# been fetched. Then the programs that the documents show.
if(TARGET gpufs_ports)
  set(bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set(real_data ${PROJECT_SOURCE_DIR}/build/real-data)
  gpufs_test_or_skip(ports_programs device ${program_tests}/ports_programs.sh ${bin})
  gpufs_test_or_skip(bench_apps device ${program_tests}/bench_apps.sh $<TARGET_FILE:app_gpufs>)
  gpufs_test_or_skip(real_inputs device ${program_tests}/real_inputs.sh ${bin} ${real_data})
  gpufs_test_or_skip(mosaic_program device ${program_tests}/mosaic_program.sh ${bin} ${real_data})
endif()
include(gpufs-shown-programs)

# A CUDA program that does not name gpufs: with two memories and copies between them, and with one
# memory behind the wrappers, also for default streams of each thread.
if(GPUFS_DEVICE STREQUAL "cuda")
  set(builds plain_cuda plain_cuda_shared plain_cuda_shared_threads)
  foreach(name IN LISTS builds)
    add_executable(${name} test/programs/plain_cuda.cu)
    gpufs_set_up_program(${name})
    if(name MATCHES "_shared")
      target_compile_definitions(${name} PRIVATE ONE_MEMORY)
      gpufs_wrap_launches(${name})
      gpufs_wrap_io(${name})
    endif()
  endforeach()
  target_compile_options(plain_cuda_shared_threads PRIVATE --default-stream=per-thread)
  list(TRANSFORM builds PREPEND ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/ OUTPUT_VARIABLE paths)
  gpufs_test_or_skip(plain_cuda device ${program_tests}/plain_cuda.sh ${paths})
endif()

# add_planted_bug(<name> <sanitizer> <report>): test/*/<name>.{cpp,cu} must pass with the argument
# `clean`. Without the argument it must make the sanitizer print the report.
function(add_planted_bug name sanitizer report)
  file(GLOB source CONFIGURE_DEPENDS test/*/${name}.cpp test/*/${name}.cu)
  if(NOT source)
    return()
  endif()
  add_executable(${name})
  gpufs_add_sources(${name} ${source})
  gpufs_set_up_program(${name})
  add_test(NAME ${name}_clean COMMAND ${name} clean)
  set_tests_properties(${name}_clean PROPERTIES
    TIMEOUT ${test_timeout} LABELS planted ENVIRONMENT "${test_environment}")
  if(GPUFS_SANITIZE MATCHES "${sanitizer}")
    # Its report would come before the one of AddressSanitizer.
    target_compile_options(${name} PRIVATE -fno-sanitize=object-size)
    add_test(NAME ${name}_is_reported COMMAND ${name})
    set_tests_properties(${name}_is_reported PROPERTIES
      TIMEOUT ${test_timeout} LABELS planted PASS_REGULAR_EXPRESSION "${report}"
      ENVIRONMENT "${test_environment}")
  endif()
endfunction()
if(GPUFS_DEVICE STREQUAL "emulated")
  add_planted_bug(planted_missing_barrier thread "ThreadSanitizer: data race")
  add_planted_bug(planted_shared_access thread "ThreadSanitizer: data race")
  add_planted_bug(planted_weak_mark thread "ThreadSanitizer: data race")
  add_planted_bug(planted_page_overrun address "AddressSanitizer: heap-buffer-overflow")
else()
  # Runs all suites of its folder. The folder may have been copied to another machine.
  configure_file(
    scripts/run_gpu_suites.sh ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/run-gpu-suites COPYONLY)
endif()

# Tests that take longest begin first. One that begins last would run alone, with idle cores.
foreach(name IN ITEMS
    nvme_qemu_test bench_bam mapping_files read_by_warps_test machine_order_test bench_mapping
    bench_apps emulated_system_calls_test registered_test page_table_test lra_test
    prefetch_count_test pieces_ahead_test prefetch_differential_test
    shared_pressure_test shared_files_test shared_file_threads_test shared_tiers_test)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST 10)
  endif()
endforeach()
