# What kernels of other packages compile and link. The headers, for NVRTC, go into every package.
# The device functions, as LTO-IR for numba-cuda, need nvcc and go into the CUDA package.
# The headers of an installed CUDA library lie with it. An emulated one has none for NVRTC.
if(GPUFS_PREFIX AND GPUFS_DEVICE STREQUAL "cuda")
  get_target_property(kernel_includes gpufs::gpufs INTERFACE_INCLUDE_DIRECTORIES)
  install(DIRECTORY ${kernel_includes}/gpufs ${kernel_includes}/prefetcher
    DESTINATION gpufs/include COMPONENT python)
else()
  set(kernel_includes ${sources}/include ${sources})
  install(DIRECTORY ${sources}/include/gpufs DESTINATION gpufs/include
    COMPONENT python FILES_MATCHING PATTERN *.hpp PATTERN *.h)
  install(DIRECTORY ${sources}/gpufs DESTINATION gpufs/include
    COMPONENT python FILES_MATCHING PATTERN *.hpp PATTERN *.cuh
    REGEX "/gpufs/(owner|mapping|device/emulated)(/|$)" EXCLUDE)
  install(DIRECTORY ${sources}/gpufs/nvrtc DESTINATION gpufs/include/gpufs COMPONENT python)
  install(DIRECTORY ${sources}/prefetcher DESTINATION gpufs/include
    COMPONENT python FILES_MATCHING PATTERN *.hpp)
endif()

if(GPUFS_DEVICE STREQUAL "cuda")
  # LTO-IR of the oldest architecture links for all later ones.
  set(lto_ir ${CMAKE_CURRENT_BINARY_DIR}/device_calls.ltoir)
  list(TRANSFORM kernel_includes PREPEND -I OUTPUT_VARIABLE includes)
  set(host_compiler)
  if(CMAKE_CUDA_HOST_COMPILER)
    set(host_compiler -ccbin ${CMAKE_CUDA_HOST_COMPILER})
  endif()
  add_custom_command(OUTPUT ${lto_ir}
    COMMAND ${CMAKE_CUDA_COMPILER} ${host_compiler} -std=c++20 --expt-relaxed-constexpr -dc -ltoir
      -gencode arch=compute_80,code=lto_80 ${includes}
      ${PROJECT_SOURCE_DIR}/src/device_calls.cu -o ${lto_ir}
    DEPENDS ${PROJECT_SOURCE_DIR}/src/device_calls.cu)
  add_custom_target(device_calls DEPENDS ${lto_ir})
  add_dependencies(_gpufs device_calls)
  install(FILES ${lto_ir} DESTINATION gpufs COMPONENT python)
endif()
