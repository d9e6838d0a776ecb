// Pinned memory whose pages are as large as the system has them.
#pragma once

#include <gpufs/device.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::shared {

/// Pinned memory. From 2 MiB on it lies in pages of that size where the system gives them: these
/// are had and pinned in 0.7 ms for 4 MiB, others in 1.9 ms (docs/design/mapping.md).
class staging_memory {
 public:
  /// Throws device_error: the system refuses to pin so much.
  explicit staging_memory(std::uint64_t bytes);
  ~staging_memory();
  staging_memory(staging_memory const&) = delete;
  staging_memory& operator=(staging_memory const&) = delete;

  [[nodiscard]] std::byte* data() const { return large_ != nullptr ? large_ : plain_.data(); }
  [[nodiscard]] std::uint64_t size() const { return bytes_; }

 private:
  void take_large_pages() noexcept;

  std::uint64_t const bytes_;
  std::byte* large_ = nullptr;  ///< null: in `plain_`
  pinned_buffer<std::byte> plain_;
};

}  // namespace gpufs::shared
