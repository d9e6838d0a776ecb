# Compiles and runs the programs that README.md and documents show. A program NAME is the
# block after the line "<!-- NAME.cu -->".

# gpufs_add_shown_program(<page> <name> <script>): the test <name> runs `script PROGRAM`.
function(gpufs_add_shown_program page name script)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${page})
  file(READ ${PROJECT_SOURCE_DIR}/${page} text)
  string(FIND "${text}" "<!-- ${name}.cu -->" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${page} shows no ${name}.cu")
  endif()
  string(SUBSTRING "${text}" ${at} -1 rest)
  string(FIND "${rest}" "```cpp\n" begin)
  math(EXPR begin "${begin} + 7")
  string(SUBSTRING "${rest}" ${begin} -1 rest)
  string(FIND "${rest}" "```\n" end)
  string(SUBSTRING "${rest}" 0 ${end} code)
  set(source ${PROJECT_BINARY_DIR}/shown/${name}.cu)
  file(CONFIGURE OUTPUT ${source} CONTENT "${code}" @ONLY)
  add_executable(${name})
  gpufs_add_kernel_sources(${name} ${source})
  gpufs_set_up_program(${name})
  add_test(NAME ${name}
    COMMAND ${PROJECT_SOURCE_DIR}/test/programs/${script} $<TARGET_FILE:${name}>)
  set_tests_properties(${name} PROPERTIES
    TIMEOUT 600 LABELS device SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")
endfunction()

# The programs of examples/. scripts/test_install.sh builds them against the installed package, too.
set(examples_folder ${PROJECT_BINARY_DIR}/examples)
add_subdirectory(${PROJECT_SOURCE_DIR}/examples ${examples_folder})
add_test(NAME examples COMMAND ${PROJECT_SOURCE_DIR}/test/programs/examples.sh
  ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set_tests_properties(examples PROPERTIES
  TIMEOUT 600 LABELS device SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")

gpufs_add_shown_program(README.md readme_count readme_count.sh)
gpufs_add_shown_program(docs/porting.md porting_after porting.sh)
gpufs_add_shown_program(docs/mapping.md mapping_scale mapping_scale.sh)
if(NOT GPUFS_DEVICE STREQUAL "emulated")
  gpufs_add_shown_program(docs/porting.md porting_before porting.sh)  # without gpufs: plain CUDA
endif()
