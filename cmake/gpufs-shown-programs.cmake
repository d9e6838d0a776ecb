# Compiles and runs the code that README.md and documents show. scripts/document_block.py finds the
# block after the line "<!-- NAME -->".

# gpufs_extract_block(<page> <name>): writes the block to shown/<name> in the build folder.
function(gpufs_extract_block page name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${page})
  execute_process(
    COMMAND ${GPUFS_PYTHON3} ${PROJECT_SOURCE_DIR}/scripts/document_block.py ${page} ${name}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE code COMMAND_ERROR_IS_FATAL ANY)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/shown/${name} CONTENT "${code}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY gpufs_shown_blocks ${name})
endfunction()

# gpufs_add_shown_program(<page> <name> <script>): the test <name> runs `script PROGRAM`.
function(gpufs_add_shown_program page name script)
  gpufs_extract_block(${page} ${name}.cu)
  set(source ${PROJECT_BINARY_DIR}/shown/${name}.cu)
  add_executable(${name})
  gpufs_add_kernel_sources(${name} ${source})
  gpufs_set_up_program(${name})
  gpufs_test_or_skip(${name} device
    ${PROJECT_SOURCE_DIR}/test/programs/${script} $<TARGET_FILE:${name}>)
endfunction()

# The programs of examples/. scripts/test_install.sh builds them against the installed package, too.
set(examples_folder ${PROJECT_BINARY_DIR}/examples)
add_subdirectory(${PROJECT_SOURCE_DIR}/examples ${examples_folder})
gpufs_test_or_skip(examples device
  ${PROJECT_SOURCE_DIR}/test/programs/examples.sh ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

if(NOT GPUFS_PYTHON3)
  message(STATUS "python3 not found: the code of README.md and documents is not tested")
  return()
endif()
gpufs_add_shown_program(README.md readme_count readme_count.sh)
gpufs_add_shown_program(docs/porting.md porting_after porting.sh)
gpufs_add_shown_program(docs/mapping.md mapping_scale mapping_scale.sh)
if(NOT GPUFS_DEVICE STREQUAL "emulated")
  gpufs_add_shown_program(docs/porting.md porting_before porting.sh)  # without gpufs: plain CUDA
endif()

# Fragments are compiled in the functions that test/documents has around them.
foreach(name mapped_files cli_settings)
  gpufs_extract_block(README.md ${name}.inc)
endforeach()
foreach(name
    declared_launch profiled_launch glimpses mapped_for_writing budgets managed_object windows
    moved_bytes)
  gpufs_extract_block(docs/mapping.md ${name}.inc)
endforeach()
add_library(shown_fragments OBJECT)
gpufs_add_kernel_sources(shown_fragments
  ${PROJECT_SOURCE_DIR}/test/documents/readme.cu ${PROJECT_SOURCE_DIR}/test/documents/mapping.cu)
gpufs_set_up_program(shown_fragments)
target_link_libraries(shown_fragments PRIVATE gpufs_cli gpufs::CLI11)
target_include_directories(shown_fragments PRIVATE ${PROJECT_BINARY_DIR}/shown)

# No block is left out. Some are used elsewhere: scripts/test_install.sh builds a project of those
# of CMake, python/tests runs those of Python.
if(GPUFS_DEVICE STREQUAL "emulated")
  get_property(shown DIRECTORY PROPERTY gpufs_shown_blocks)
  file(GLOB_RECURSE pages RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS docs/*.md)
  gpufs_test(document_blocks host
    ${GPUFS_PYTHON3} scripts/document_block.py --check README.md ${pages} --
      ${shown} porting_before.cu CMakeLists.txt wrapped.cmake records.py swap.py map.py)
  # The figures of README.md are those of docs/results.
  gpufs_test(readme_figures host ${GPUFS_PYTHON3} scripts/results.py check)
  set_tests_properties(document_blocks readme_figures PROPERTIES
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endif()
