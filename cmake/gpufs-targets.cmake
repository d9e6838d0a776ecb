# Helpers for this build: warnings, header-only libraries, the library's interface, programs.

# gpufs_find_headers(<name> <header> <package>): makes the target gpufs::<name> of a header-only
# library of the system.
function(gpufs_find_headers name header package)
  find_path(GPUFS_${name}_INCLUDE_DIR NAMES ${header})
  mark_as_advanced(GPUFS_${name}_INCLUDE_DIR)
  if(NOT GPUFS_${name}_INCLUDE_DIR)
    message(FATAL_ERROR "${header} not found: install ${package}, or set GPUFS_${name}_INCLUDE_DIR")
  endif()
  add_library(gpufs::${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(gpufs::${name} SYSTEM INTERFACE ${GPUFS_${name}_INCLUDE_DIR})
endfunction()

# Warnings for our own sources. Targets that link the library do not get them.
add_library(gpufs_warnings INTERFACE)
target_compile_options(gpufs_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas>)
if(GPUFS_WARNINGS_AS_ERRORS)
  target_compile_options(gpufs_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()

# gpufs_add_sources(<target> <file>...): .cpp files for the host compiler, .cu files for the device.
function(gpufs_add_sources target)
  set(kernel_sources ${ARGN})
  list(FILTER kernel_sources INCLUDE REGEX "\\.cu$")
  set(host_sources ${ARGN})
  list(FILTER host_sources EXCLUDE REGEX "\\.cu$")
  target_sources(${target} PRIVATE ${host_sources})
  if(kernel_sources)
    gpufs_add_kernel_sources(${target} ${kernel_sources})
  endif()
endfunction()

# gpufs_set_up_library(gpufs): what the library needs and what it asks of those who link it.
function(gpufs_set_up_library target)
  include(gpufs-fmt)
  gpufs_find_headers(tomlplusplus toml++/toml.h libtomlplusplus-dev)
  target_compile_definitions(gpufs::tomlplusplus INTERFACE TOML_HEADER_ONLY=1)
  gpufs_find_headers(spdlog spdlog/spdlog.h libspdlog-dev)
  gpufs_find_headers(boost_headers boost/lockfree/spsc_queue.hpp libboost-dev)

  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/gpufs>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target}
    PUBLIC Threads::Threads
    PRIVATE gpufs::uring $<BUILD_INTERFACE:gpufs_warnings>
      $<BUILD_INTERFACE:gpufs::fmt> $<BUILD_INTERFACE:gpufs::tomlplusplus>
      $<BUILD_INTERFACE:gpufs::boost_headers> $<BUILD_INTERFACE:gpufs::spdlog>)

  set_target_properties(${target} PROPERTIES
    GPUFS_DEVICE ${GPUFS_DEVICE} EXPORT_PROPERTIES GPUFS_DEVICE)
  if(GPUFS_DEVICE STREQUAL "emulated")
    target_compile_definitions(${target} PUBLIC GPUFS_EMULATED=1)
    target_link_libraries(${target} PUBLIC Boost::context)
  else()
    target_compile_features(${target} PUBLIC cuda_std_20)
    target_compile_options(${target} PUBLIC $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
    target_link_libraries(${target} PUBLIC CUDA::cudart_static)
  endif()
  if(GPUFS_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${GPUFS_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${GPUFS_SANITIZE})
    # With other models the linker turns an `add` into `lea`, which sets no flags for g++'s checks.
    # These would then report addresses of thread-local variables as null at random.
    # This model fits programs only, not shared libraries.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PUBLIC -ftls-model=local-exec)
    endif()
  endif()
  if(GPUFS_COVERAGE)
    # Counters lie in a mapped file (%c in test_environment): processes that are killed count, too.
    # -Xclang: ccache keeps nothing that is compiled with -fprofile-update itself.
    target_compile_options(${target} PUBLIC
      -fprofile-instr-generate -fcoverage-mapping "SHELL:-Xclang -fprofile-update=atomic"
      "SHELL:-mllvm -runtime-counter-relocation")
    target_link_options(${target} PUBLIC -fprofile-instr-generate)
    if(GPUFS_SANITIZE MATCHES "address")
      # As a shared library. A runtime within the program would call the functions that suites put
      # in place of the system's calls, before it is ready.
      execute_process(OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE
        COMMAND ${CMAKE_CXX_COMPILER}
          -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
      cmake_path(GET runtime PARENT_PATH runtime_folder)
      target_link_options(${target} PUBLIC -shared-libasan LINKER:-rpath,${runtime_folder})
    endif()
  endif()
endfunction()

# gpufs_add_commit(<target>): adds a source file that says from which commit it was built.
function(gpufs_add_commit target)
  set(commit ${PROJECT_BINARY_DIR}/gpufs-commit.cpp)
  add_custom_target(gpufs_commit BYPRODUCTS ${commit}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${commit}
      -P ${PROJECT_SOURCE_DIR}/cmake/gpufs-write-commit.cmake)
  target_sources(${target} PRIVATE ${commit})
  add_dependencies(${target} gpufs_commit)
endfunction()

# gpufs_set_up_program(<target>): what programs and test programs have in common.
function(gpufs_set_up_program target)
  target_link_libraries(${target} PRIVATE gpufs gpufs_warnings gpufs::fmt)
  if(GPUFS_DEVICE STREQUAL "cuda")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
    # Programs are copied to machines with other system libraries. They contain the libraries that
    # they need, and are stripped and compressed. PTX alone shows that all compiles: it stays here.
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc $<$<CONFIG:Release>:-s>)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.4
        AND NOT CMAKE_CUDA_ARCHITECTURES MATCHES "^[0-9]+-virtual$")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
    endif()
  endif()
endfunction()

# gpufs_add_apps(): every folder of apps/ with a main.cu or main.cpp becomes a program of that name.
# A program is built from all sources of its folder and links apps/common and apps/baseline. gpufs
# also has the sources of apps/bench, and vector addition of apps/mapping, whose program is called
# gpufs-mapping. The target `programs` builds them all.
function(gpufs_add_apps)
  file(GLOB_RECURSE common_sources CONFIGURE_DEPENDS
    apps/common/*.cpp apps/common/*.cu apps/baseline/*.cpp)
  add_library(gpufs_apps_common STATIC)
  gpufs_add_sources(gpufs_apps_common ${common_sources})
  gpufs_add_commit(gpufs_apps_common)
  target_link_libraries(gpufs_apps_common
    PUBLIC gpufs gpufs_cli gpufs::CLI11 gpufs::fmt PRIVATE gpufs_warnings gpufs::uring)
  gpufs_find_headers(nlohmann_json nlohmann/json.hpp nlohmann-json3-dev)
  add_custom_target(programs)
  # gpufs bench and mosaic look for them beside the program, which may be copied to another machine.
  foreach(script IN ITEMS
      plot.py pictures.py trace.py figures.py mapping_figures.py bam_figures.py
      peers_kvikio.py)
    configure_file(scripts/${script} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${script} COPYONLY)
    if(GPUFS_INSTALL)
      install(PROGRAMS scripts/${script} DESTINATION ${CMAKE_INSTALL_DATADIR}/gpufs)
    endif()
  endforeach()
  gpufs_add_ports()
  gpufs_add_analytics()
  file(GLOB mains CONFIGURE_DEPENDS apps/*/main.cpp apps/*/main.cu)
  foreach(main IN LISTS mains)
    cmake_path(GET main PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*.cu)
    if(name STREQUAL "mapping")
      set(name gpufs-mapping)
    endif()
    if(name STREQUAL "gpufs")  # gpufs bench
      file(GLOB bench_sources CONFIGURE_DEPENDS apps/bench/*.cpp apps/bench/*.cu)
      list(APPEND sources ${bench_sources})
      list(APPEND sources  # gpufs tune --mapping
        apps/mapping/session.cpp apps/mapping/runs.cpp apps/mapping/vecadd.cu)
    endif()
    add_executable(app_${name})
    gpufs_add_sources(app_${name} ${sources})
    gpufs_set_up_program(app_${name})
    target_link_libraries(app_${name} PRIVATE gpufs_apps_common)
    if(name STREQUAL "gpufs")  # gpufs trace
      target_link_libraries(app_${name} PRIVATE gpufs::nlohmann_json)
    endif()
    if(name MATCHES "^gpufs-(graph|lookups|mapping|taxi|vectoradd)$")
      target_link_libraries(app_${name} PRIVATE gpufs_analytics)
    endif()
    if(name MATCHES "^(gpufs|mosaic)$")  # bench apps; the harness
      target_link_libraries(app_${name} PRIVATE gpufs_ports)
    endif()
    if(name STREQUAL "gpufs-mapping")  # kernels and the references of the CPU round alike
      target_compile_options(app_${name} PRIVATE
        $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
        $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-Xcompiler=-ffp-contract=off>)
    endif()
    set_target_properties(app_${name} PROPERTIES OUTPUT_NAME ${name})
    add_dependencies(programs app_${name})
    if(GPUFS_INSTALL)
      install(TARGETS app_${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
  endforeach()
endfunction()
