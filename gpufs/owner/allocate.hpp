// Memory of the owners, and an error that names the setting to lower.
#pragma once

#include <gpufs/device.hpp>

#include <fmt/format.h>

#include <cstdint>

namespace gpufs::owner {

inline constexpr char lower_cache[] = "lower cache_size";
inline constexpr char lower_staging[] = "lower prefetch_memory or staging_size";
inline constexpr char lower_writes[] = "lower write_memory";
inline constexpr char lower_seats[] = "lower seats";
inline constexpr char lower_files[] = "lower max_open_files";

/// There is not so much memory.
struct no_memory : device_error {
  using device_error::device_error;
};

/// `count` elements of memory, with any contents. Throws no_memory naming `what` and the `remedy`.
template <class Memory>
Memory allocate_unset(std::uint64_t count, char const* what, char const* remedy) {
  try {
    return Memory(count);
  } catch (device_error const& e) {
    throw no_memory(
        fmt::format("no memory for {} ({} elements): {}; {}", what, count, e.what(), remedy));
  }
}

/// The same, zeroed.
template <class Memory>
Memory allocate(std::uint64_t count, char const* what, char const* remedy) {
  auto memory = allocate_unset<Memory>(count, what, remedy);
  memory.fill_zero();
  return memory;
}

template <class T>
buffer<T> on_device(std::uint64_t count, char const* what, char const* remedy) {
  return allocate<buffer<T>>(count, what, remedy);
}

template <class T>
pinned_buffer<T> pinned(std::uint64_t count, char const* what, char const* remedy) {
  return allocate<pinned_buffer<T>>(count, what, remedy);
}

/// Bytes of some buffers together.
template <class... Memory>
std::uint64_t bytes_of(Memory const&... memory) {
  return (std::uint64_t{0} + ... + memory.bytes());
}

}  // namespace gpufs::owner
