// The functions of CUDA's driver that map device memory to addresses.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/device/cuda/check.hpp>

#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace gpufs::cuda_device {

/// A function of the driver. Programs are not linked with the driver's library, so that they start
/// where there is none.
template <class Function>
Function* driver_function(char const* name) {
  void* found = nullptr;
  auto status = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  constexpr unsigned version = 12000;  // of the functions below
  check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status),
        "cudaGetDriverEntryPointByVersion");
#else
  check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status),
        "cudaGetDriverEntryPoint");
#endif
  if (status != cudaDriverEntryPointSuccess || found == nullptr)
    throw device_error(std::string("shared memory: the driver has no ") + name +
                       "; it must be of CUDA 12 or later");
  return reinterpret_cast<Function*>(found);
}

/// Throws device_error: the driver is too old.
struct driver {
  decltype(cuMemAddressReserve)* reserve =
      driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(cuMemAddressFree)* release_addresses =
      driver_function<decltype(cuMemAddressFree)>("cuMemAddressFree");
  decltype(cuMemCreate)* create = driver_function<decltype(cuMemCreate)>("cuMemCreate");
  decltype(cuMemRelease)* release = driver_function<decltype(cuMemRelease)>("cuMemRelease");
  decltype(cuMemMap)* map = driver_function<decltype(cuMemMap)>("cuMemMap");
  decltype(cuMemUnmap)* unmap = driver_function<decltype(cuMemUnmap)>("cuMemUnmap");
  decltype(cuMemSetAccess)* set_access =
      driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess");
  decltype(cuGetErrorName)* error_name =
      driver_function<decltype(cuGetErrorName)>("cuGetErrorName");

  void expect(CUresult result, char const* call) const {
    if (result == CUDA_SUCCESS) return;
    char const* name = nullptr;
    error_name(result, &name);
    throw device_error(std::string("shared memory: ") + call + ": " +
                       (name != nullptr ? name : "an unknown error") +
                       "; free GPU memory, or lower device_memory");
  }
};

}  // namespace gpufs::cuda_device
