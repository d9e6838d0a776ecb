// A read of a range of a file, by as many read operations as it takes.
#pragma once

#include <host-daemon/engine/direct_read.hpp>
#include <host-daemon/engine/io_engine.hpp>
#include <host-daemon/engine/path_choice.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::daemon {

/// Widens operations for O_DIRECT, goes on after short ones, repeats interrupted ones. One caller
/// uses it at a time. It keeps its memory from one read to the next.
class file_read {
 public:
  /// What becomes of the bytes beyond the end of the file.
  enum class beyond_end { missing, zeros };

  /// Begins to read [offset, offset + length) (at least 1 byte) to `to`. `room`, at least `length`:
  /// that many bytes from `to` on may be overwritten. `direct`: past the OS page cache, where
  /// file.direct has a descriptor.
  void begin(local_file& file, std::uint64_t offset, std::uint64_t length, std::byte* to,
             std::uint64_t room, bool direct, beyond_end beyond) noexcept;

  // What is still to be read.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_ + done_; }
  [[nodiscard]] std::uint64_t left() const noexcept { return length_ - done_; }

  /// Returns the next operation, for at most `most` bytes of left(). Its result must come to
  /// absorb() before the next call.
  [[nodiscard]] read_operation next(std::uint64_t most, std::uint64_t cookie) noexcept;

  /// Takes in the result of an operation, or a failure in place of one. Returns true if the read is
  /// over. `paths` learns of refused direct reads.
  bool absorb(std::int64_t result, path_choice& paths) noexcept;

  /// The bytes that have arrived. Those that came before an error count.
  [[nodiscard]] std::uint64_t done() const noexcept { return done_; }
  /// Of these, what the file had: the others are zeros behind its end.
  [[nodiscard]] std::uint64_t done_from_file() const noexcept { return done_ - padded_; }
  /// Of these, read with O_DIRECT.
  [[nodiscard]] std::uint64_t done_directly() const noexcept { return done_directly_; }
  /// The -errno that ended the read, or 0.
  [[nodiscard]] std::int32_t error() const noexcept { return error_; }

 private:
  bool absorb_direct(std::int64_t& result, path_choice& paths) noexcept;

  local_file* file_ = nullptr;
  std::uint64_t offset_ = 0, length_ = 0, done_ = 0, padded_ = 0, done_directly_ = 0;
  std::byte* to_ = nullptr;
  std::uint64_t room_ = 0;
  bool direct_ = false;     // further operations go past the OS page cache
  bool is_direct_ = false;  // the one under way is `widened_`
  bool zeros_ = false;
  direct_read widened_;
  unsigned fruitless_ = 0;  // operations in a row that were interrupted or told to try again
  std::int32_t error_ = 0;
};

}  // namespace gpufs::daemon
