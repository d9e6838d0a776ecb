# Finds what the static library needs at link time. The build and the installed package share this
# file, so both link the same way.
# In: GPUFS_DEVICE. The package sets gpufs_is_package, and gpufs_cuda_architectures.
# Out: Threads::Threads, gpufs::uring, and Boost::context (emulated) or CUDA::cudart_static (cuda).
# Of the caller's variables only those of the language CUDA change. gpufs_dependencies_found says
# that all is there.

# gpufs_missing(<what is missing, and what to do>): ends this file. Without find_package(gpufs) it
# ends the configuration. find_package() itself decides whether that is an error.
macro(gpufs_missing text)
  if(NOT gpufs_is_package)
    message(FATAL_ERROR "${text}")
  endif()
  set(gpufs_FOUND FALSE)
  set(gpufs_NOT_FOUND_MESSAGE "${text}")
  return()
endmacro()

# gpufs_set_for_now(<variable> <value>), gpufs_put_back(<variable>): a variable of the caller.
macro(gpufs_set_for_now variable value)
  set(gpufs_kept_${variable} "${${variable}}")
  set(${variable} ${value})
endmacro()
macro(gpufs_put_back variable)
  unset(${variable})
  if(NOT "${${variable}}" STREQUAL "${gpufs_kept_${variable}}")  # the cache may have that value
    set(${variable} "${gpufs_kept_${variable}}")
  endif()
  unset(gpufs_kept_${variable})
endmacro()

set(gpufs_dependencies_found FALSE)
gpufs_set_for_now(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads QUIET)
gpufs_put_back(THREADS_PREFER_PTHREAD_FLAG)
if(NOT Threads_FOUND)
  gpufs_missing("gpufs needs threads: ${CMAKE_CXX_COMPILER} links no program that uses them")
endif()

if(NOT TARGET gpufs::uring)
  find_library(GPUFS_URING_LIBRARY NAMES liburing.a)
  find_path(GPUFS_URING_INCLUDE_DIR NAMES liburing.h)
  mark_as_advanced(GPUFS_URING_LIBRARY GPUFS_URING_INCLUDE_DIR)
  if(NOT GPUFS_URING_LIBRARY OR NOT GPUFS_URING_INCLUDE_DIR)
    gpufs_missing("liburing.a or liburing.h not found: install liburing-dev, or set \
GPUFS_URING_LIBRARY and GPUFS_URING_INCLUDE_DIR")
  endif()
  add_library(gpufs::uring STATIC IMPORTED)
  set_target_properties(gpufs::uring PROPERTIES
    IMPORTED_LOCATION ${GPUFS_URING_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${GPUFS_URING_INCLUDE_DIR})
endif()

if(NOT gpufs_is_package)
  set(gpufs_cuda_architectures "80-real;90")  # sm_80 and sm_90 code, and PTX for later devices
endif()
if(GPUFS_DEVICE STREQUAL "emulated")
  gpufs_set_for_now(Boost_USE_STATIC_LIBS ON)
  find_package(Boost 1.74 QUIET CONFIG COMPONENTS context)
  gpufs_put_back(Boost_USE_STATIC_LIBS)
  if(NOT Boost_FOUND)
    gpufs_missing("a static Boost.Context of Boost 1.74 or later not found: install \
libboost-context-dev, or name the folder of another one in CMAKE_PREFIX_PATH")
  endif()
else()
  if(gpufs_is_package AND NOT CMAKE_CUDA_COMPILER_LOADED)
    # enable_language() would end the configuration. check_language() forgets the host compiler.
    set(gpufs_nvcc nvcc)
    if(CMAKE_CUDA_COMPILER)
      set(gpufs_nvcc ${CMAKE_CUDA_COMPILER})
    elseif(NOT "$ENV{CUDACXX}" STREQUAL "")
      separate_arguments(gpufs_nvcc UNIX_COMMAND "$ENV{CUDACXX}")
      list(GET gpufs_nvcc 0 gpufs_nvcc)  # flags may follow
    endif()
    find_program(GPUFS_FOUND_NVCC NAMES ${gpufs_nvcc})
    set(gpufs_nvcc ${GPUFS_FOUND_NVCC})
    unset(GPUFS_FOUND_NVCC CACHE)
    if(NOT gpufs_nvcc)
      gpufs_missing("this gpufs is for CUDA, and no CUDA compiler was found: set CUDACXX or \
CMAKE_CUDA_COMPILER to nvcc, or put its folder on PATH")
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES ${gpufs_cuda_architectures})
  endif()
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
    gpufs_missing("${CMAKE_CUDA_COMPILER} is of CUDA ${CMAKE_CUDA_COMPILER_VERSION}: gpufs needs \
C++20 in nvcc, which CUDA 12.0 and later have; set CUDACXX or CMAKE_CUDA_COMPILER to such an nvcc")
  endif()
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  endif()
  find_package(CUDAToolkit QUIET)
  if(NOT TARGET CUDA::cudart_static)
    gpufs_missing("the static CUDA runtime (libcudart_static.a) of ${CMAKE_CUDA_COMPILER} not \
found: install the toolkit's cudart development package, or set CUDAToolkit_ROOT")
  endif()
endif()
set(gpufs_dependencies_found TRUE)
