# Functions for targets that link gpufs::gpufs: the linker leads calls of unchanged sources to
# gpufs. docs/mapping.md says what they do. This file is installed with the package.
#
# gpufs_wrap_launches(<target>): <<<>>> and CUDA's launches, copies and fills use shared objects as
# gpufs::launch() does. The target links the static CUDA runtime. Emulated: does nothing, as
# gpufs::launch() is the only way to launch there.
#
# gpufs_wrap_io(<target>): read, write, pread, pwrite, fread, fwrite, memcpy, memmove and memset
# take the memory of shared objects.

# The wrappers are in the link from the beginning, for libraries that come behind gpufs and call
# them.
function(gpufs_lead_calls target)
  foreach(call IN LISTS ARGN)
    target_link_options(${target} PRIVATE LINKER:--wrap=${call},--undefined=__wrap_${call})
  endforeach()
endfunction()

function(gpufs_wrap_io target)
  gpufs_lead_calls(${target}
    read write pread pwrite pread64 pwrite64 fread fwrite fread_unlocked fwrite_unlocked
    memcpy memmove memset
    __read_chk __pread_chk __pread64_chk __fread_chk __memcpy_chk __memmove_chk __memset_chk)
endfunction()

function(gpufs_wrap_launches target)
  get_target_property(device gpufs::gpufs GPUFS_DEVICE)
  if(device STREQUAL "emulated")
    return()
  endif()
  get_target_property(runtime ${target} CUDA_RUNTIME_LIBRARY)
  if(runtime MATCHES "^(Shared|None)$")
    message(FATAL_ERROR "gpufs_wrap_launches(${target}): the CUDA runtime must be part of the "
      "program, since the linker leads its calls; set CUDA_RUNTIME_LIBRARY of ${target} to Static")
  endif()
  set(calls)
  # Each call exists once more for programs whose default stream is each thread's own.
  foreach(call IN ITEMS __cudaLaunchKernel cudaLaunchKernel cudaLaunchKernelExC
      cudaLaunchCooperativeKernel cudaMemcpyAsync cudaMemcpy2DAsync cudaMemcpyToSymbolAsync
      cudaMemcpyFromSymbolAsync cudaMemsetAsync cudaMemset2DAsync)
    list(APPEND calls ${call} ${call}_ptsz)
  endforeach()
  foreach(call IN ITEMS cudaMemcpy cudaMemcpy2D cudaMemcpyToSymbol cudaMemcpyFromSymbol cudaMemset
      cudaMemset2D)
    list(APPEND calls ${call} ${call}_ptds)
  endforeach()
  gpufs_lead_calls(${target} ${calls})
endfunction()
