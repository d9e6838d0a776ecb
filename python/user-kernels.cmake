# What kernels of other packages compile and link: the headers for NVRTC, and device functions as
# LTO-IR for numba-cuda. The headers go into every package, the functions where nvcc compiles.
install(DIRECTORY ${sources}/include/gpufs DESTINATION gpufs/include
  COMPONENT python FILES_MATCHING PATTERN *.hpp PATTERN *.h)
install(DIRECTORY ${sources}/gpufs DESTINATION gpufs/include
  COMPONENT python FILES_MATCHING PATTERN *.hpp PATTERN *.cuh
  PATTERN emulated EXCLUDE REGEX "/gpufs/(owner|mapping)(/|$)" EXCLUDE)
install(DIRECTORY ${sources}/prefetcher DESTINATION gpufs/include
  COMPONENT python FILES_MATCHING PATTERN *.hpp)
