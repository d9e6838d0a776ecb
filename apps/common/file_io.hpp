// Whole reads and writes at an offset, and files without a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpufs::apps {

/// Reads until the span is full or the file ends. Returns the bytes read, or -errno.
[[nodiscard]] std::int64_t read_at(int fd, std::span<std::byte> to, std::uint64_t offset);

/// Writes all of it. Returns 0 or -errno.
[[nodiscard]] int write_at(int fd, std::span<std::byte const> from, std::uint64_t offset);

/// Opens a new file in the folder that goes with its last descriptor. Returns -1 and errno if that
/// fails.
[[nodiscard]] int open_nameless(std::string const& folder);

}  // namespace gpufs::apps
