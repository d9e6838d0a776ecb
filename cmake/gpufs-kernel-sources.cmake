# gpufs_add_kernel_sources(<target> <file.cu>...): adds sources that contain kernels to a target
# that links gpufs::gpufs. The CUDA variant compiles them with nvcc, the emulated variant as C++.
# This file is installed with the package: consumers call the function, too. They need
# cmake_minimum_required(VERSION 3.20) or later, and call it in the directory that made the target.
function(gpufs_add_kernel_sources target)
  get_target_property(device gpufs::gpufs GPUFS_DEVICE)
  target_sources(${target} PRIVATE ${ARGN})
  if(device STREQUAL "emulated")
    # A handle is aligned to 64 bytes. g++ notes for each kernel that it once passed such parameters
    # in another way.
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
    foreach(source IN LISTS ARGN)  # it may be a source of several targets, and have options
      get_source_file_property(options ${source} COMPILE_OPTIONS)
      if(NOT "${options}" MATCHES "-Wno-unknown-pragmas;-Wno-psabi")
        set_property(SOURCE ${source} APPEND PROPERTY
          COMPILE_OPTIONS -Wno-unknown-pragmas -Wno-psabi)
      endif()
    endforeach()
  endif()
endfunction()
