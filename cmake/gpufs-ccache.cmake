# Compiles through ccache if there is one and it works for this user. Its cache directory may not be
# writable.
find_program(GPUFS_CCACHE ccache)
mark_as_advanced(GPUFS_CCACHE)
if(GPUFS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(probe ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/ccache_probe)
  file(WRITE ${probe}.cpp "int ccache_probe;\n")
  execute_process(COMMAND ${GPUFS_CCACHE} ${CMAKE_CXX_COMPILER} -c ${probe}.cpp -o ${probe}.o
    RESULT_VARIABLE ccache_result OUTPUT_QUIET ERROR_QUIET)
  if(ccache_result EQUAL 0)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${GPUFS_CCACHE})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${GPUFS_CCACHE})
  else()
    message(STATUS "ccache does not work for this user: compiling without it")
  endif()
endif()
