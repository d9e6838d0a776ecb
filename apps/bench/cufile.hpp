// cuFile of GPUDirect Storage, where it is installed: the library is loaded when it is asked for.
#pragma once

#include <apps/common/host_file.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

/// A file that cuFile reads into GPU memory. Without the nvidia-fs driver it does so in its
/// compatibility mode, by reads of the CPU and copies.
class cufile {
 public:
  /// Throws not_here saying why cuFile cannot be used: no GPU, no libcufile.so.0 where the system
  /// looks for libraries, or an error of cuFile.
  explicit cufile(host_file const& file);
  ~cufile();
  cufile(cufile const&) = delete;
  cufile& operator=(cufile const&) = delete;

  /// Reads exactly `bytes` bytes at `offset` to `memory + at`. `memory` is the begin of memory of
  /// the GPU. Any thread calls. Throws std::runtime_error naming the offset.
  void read(std::byte* memory, std::uint64_t bytes, std::uint64_t offset, std::uint64_t at) const;

 private:
  int fd_ = -1;
  void* handle_ = nullptr;
};

}  // namespace gpufs::apps
