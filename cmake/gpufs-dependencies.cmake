# Finds what the static library needs at link time. The build and the installed package share this
# file, so both link the same way.
# In: GPUFS_DEVICE.
# Out: Threads::Threads, gpufs::uring, and Boost::context (emulated) or CUDA::cudart_static (cuda).
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(NOT TARGET gpufs::uring)
  find_library(GPUFS_URING_LIBRARY NAMES liburing.a)
  find_path(GPUFS_URING_INCLUDE_DIR NAMES liburing.h)
  mark_as_advanced(GPUFS_URING_LIBRARY GPUFS_URING_INCLUDE_DIR)
  if(NOT GPUFS_URING_LIBRARY OR NOT GPUFS_URING_INCLUDE_DIR)
    message(FATAL_ERROR "liburing.a or liburing.h not found: install liburing-dev, or set "
      "GPUFS_URING_LIBRARY and GPUFS_URING_INCLUDE_DIR")
  endif()
  add_library(gpufs::uring STATIC IMPORTED)
  set_target_properties(gpufs::uring PROPERTIES
    IMPORTED_LOCATION ${GPUFS_URING_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${GPUFS_URING_INCLUDE_DIR})
endif()

set(gpufs_cuda_architectures "80-real;90")  # sm_80 and sm_90 code, and PTX for later devices
if(GPUFS_DEVICE STREQUAL "emulated")
  set(Boost_USE_STATIC_LIBS ON)
  find_package(Boost 1.74 REQUIRED CONFIG COMPONENTS context)
else()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES ${gpufs_cuda_architectures})
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  endif()
  find_package(CUDAToolkit REQUIRED)
endif()
