// The file behind an object: the interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpufs::shared {

/// What tells that others have changed a file.
struct file_version {
  std::uint64_t size = 0;
  std::int64_t modified = 0, changed = 0;  ///< nanoseconds since 1970
  bool operator==(file_version const&) const = default;
};

/// All functions are thread-safe. Errors are -errno.
class backing_file {
 public:
  virtual ~backing_file() = default;

  /// For messages.
  [[nodiscard]] virtual std::string const& name() const noexcept = 0;

  /// What the CPU's side maps.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;

  struct read_result {
    std::int64_t bytes;  ///< fewer than asked for at the end of the file, or -errno
    bool is_direct;      ///< past the OS page cache
  };
  /// Reads at `offset`. Past the OS page cache only if `to` and `offset` are aligned for that.
  [[nodiscard]] virtual read_result read(std::span<std::byte> to,
                                         std::uint64_t offset) const noexcept = 0;

  /// Writes all of it, or returns an error.
  [[nodiscard]] virtual int write(std::span<std::byte const> from,
                                  std::uint64_t offset) const noexcept = 0;

  /// Makes what was written durable.
  [[nodiscard]] virtual int sync() const noexcept = 0;

  [[nodiscard]] virtual int version(file_version& out) const noexcept = 0;

  /// Whether a change right now might leave the version the same, as clocks have a grain.
  [[nodiscard]] virtual bool is_young(file_version const& v) const noexcept = 0;
};

}  // namespace gpufs::shared
