// A 64-bit hash for host and device: the finaliser of splitmix64. Every bit of the result depends
// on every bit of `z`.
#pragma once

#include <gpufs/base/host_device.hpp>

#include <cstdint>

namespace gpufs::base {

GPUFS_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace gpufs::base
