// What a shared_range has on a GPU: the driver's reservation, and memory of the device in it.
#pragma once

#include <gpufs/device/cuda/driver.hpp>
#include <gpufs/device/shared_range.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>

namespace gpufs::device_memory {

/// Memory of the device at addresses of the reservation.
struct device_piece {
  CUmemGenericAllocationHandle handle;
  std::uint64_t bytes;
};

struct shared_range::implementation {
  cuda_device::driver const cuda;
  int device = 0;
  int host_file = -1;
  CUdeviceptr reserved = 0;
  /// Where the library reaches the same memory, if kernels may not store everywhere; 0: it does so
  /// at the shared addresses.
  CUdeviceptr library = 0;
  std::mutex mutex;
  std::map<std::uint64_t, device_piece> pieces;        ///< by offset; needs the mutex
  std::map<std::uint64_t, std::uint64_t> host_pieces;  ///< offset -> bytes; needs the mutex
  std::string why_not_guarded;                         ///< needs the mutex

  /// Reserves addresses for the library. Returns the shared ones if they are refused.
  std::byte* reserve_for_library(std::uint64_t bytes);
  void add(std::uint64_t at, std::uint64_t room);
  void remove(std::uint64_t at, device_piece const& what) const noexcept;
  /// Returns what the driver says.
  [[nodiscard]] CUresult set_access(CUdeviceptr to, std::uint64_t room, CUmemAccess_flags flags);
  /// Keeps the first reason.
  void refuse_guard(char const* call, CUresult result);

  /// Where the first piece of [at, at + room) begins. Nothing: there is none.
  template <class Pieces>
  std::optional<std::uint64_t> first_of(Pieces const& of, std::uint64_t at, std::uint64_t room) {
    std::lock_guard const lock(mutex);
    auto const found = of.lower_bound(at);
    if (found == of.end() || found->first >= at + room) return std::nullopt;
    return found->first;
  }

  /// Frees the memory of the CPU's side, so that the next object here has zeros. What cannot be
  /// freed is cleared at `host`; null: it stays.
  void give_back(std::byte* host, std::uint64_t at, std::uint64_t length) const noexcept {
    if (::fallocate(host_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(at),
                    off_t(length)) != 0 &&
        host != nullptr)
      std::memset(host + at, 0, length);
  }
  ~implementation() {
    if (host_file >= 0) ::close(host_file);
  }
};

}  // namespace gpufs::device_memory
