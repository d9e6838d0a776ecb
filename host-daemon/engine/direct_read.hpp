// One read with O_DIRECT, widened to the file's alignment. It goes in place if that fits, else
// through memory of its own.
#pragma once

#include <host-daemon/backend/direct_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace gpufs::daemon {

/// Belongs to one request at a time. Keeps its memory from one request to the next.
class direct_read {
 public:
  /// The most bytes of one read through memory of its own. Further reads bring the rest of a
  /// request.
  static constexpr std::uint64_t longest_detour = 256 << 10;

  /// Plans to read at most `length` bytes (at least 1) of a file at `offset` to `to`. The bytes
  /// behind them, up to `room` from `to` on (at least `length`), may be overwritten. Returns false
  /// if there is no memory for a detour.
  [[nodiscard]] bool plan(direct_alignment aligned, std::uint64_t offset, std::uint64_t length,
                          std::byte* to, std::uint64_t room);

  // The operation for the kernel.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::uint32_t length() const noexcept { return length_; }
  [[nodiscard]] std::byte* to() const noexcept { return detour_ ? memory_.get() : to_; }

  /// The bytes that arrive at `to` if the kernel reads all of length().
  [[nodiscard]] std::uint32_t wanted() const noexcept { return wanted_; }

  /// Called when the kernel has read `bytes`. Moves those that the request needs to `to`. Returns
  /// their number, 0..wanted().
  std::uint32_t finish(std::uint64_t bytes) noexcept;

 private:
  bool provide(std::uint64_t bytes, std::uint64_t alignment);

  std::byte* to_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint32_t length_ = 0;
  std::uint32_t skip_ = 0;  // bytes read before the first one that is needed
  std::uint32_t wanted_ = 0;
  bool detour_ = false;
  std::unique_ptr<std::byte, decltype(&std::free)> memory_{nullptr, &std::free};
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t memory_alignment_ = 0;
};

}  // namespace gpufs::daemon
