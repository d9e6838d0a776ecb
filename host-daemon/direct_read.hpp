// One read with O_DIRECT: widened to the file's alignment, in place where that fits, else through
// memory of its own.
#pragma once

#include <host-daemon/direct_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace gpufs::daemon {

/// Belongs to one request at a time; keeps its memory from one to the next.
class direct_read {
 public:
  /// The most that one read brings through memory of its own; what a request wants beyond comes
  /// with further reads.
  static constexpr std::uint64_t longest_detour = 256 << 10;

  /// Plans to bring bytes of a file from `offset` on to `to`: `length` of them (at least 1) or
  /// fewer. Bytes behind them, up to `room` from `to` on (at least `length`), may be overwritten.
  /// False if there is no memory for a detour.
  [[nodiscard]] bool plan(direct_alignment aligned, std::uint64_t offset, std::uint64_t length,
                          std::byte* to, std::uint64_t room);

  // What to ask the kernel for.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::uint32_t length() const noexcept { return length_; }
  [[nodiscard]] std::byte* to() const noexcept { return detour_ ? memory_.get() : to_; }

  /// Bytes that arrive where they were wanted if the kernel reads all of length().
  [[nodiscard]] std::uint32_t wanted() const noexcept { return wanted_; }

  /// The kernel has read `bytes`. Brings what was wanted of them to its place; returns how many
  /// bytes that is, 0..wanted().
  std::uint32_t finish(std::uint64_t bytes) noexcept;

 private:
  bool provide(std::uint64_t bytes, std::uint64_t alignment);

  std::byte* to_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint32_t length_ = 0;
  std::uint32_t skip_ = 0;  // bytes read before the first wanted one
  std::uint32_t wanted_ = 0;
  bool detour_ = false;
  std::unique_ptr<std::byte, decltype(&std::free)> memory_{nullptr, &std::free};
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t memory_alignment_ = 0;
};

}  // namespace gpufs::daemon
