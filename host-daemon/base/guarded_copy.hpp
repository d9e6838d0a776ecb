// Copies out of mapped files, whose bytes may vanish.
#pragma once

#include <cstddef>

namespace gpufs::daemon {

/// If another process truncates a mapped file, or its storage fails, an access to the mapping
/// raises SIGBUS. guard_copies() sets a handler that ends the copy instead. Any other SIGBUS goes
/// to the handler that was there before.
/// Returns whether the handler is set. It is not if the system refuses, or if the program has set
/// a handler of its own afterwards, which is left alone. Any thread calls.
[[nodiscard]] bool guard_copies() noexcept;

/// Copies `bytes` bytes out of a mapped file. guard_copies() has returned true.
/// Returns false if not all bytes could be had, or 256 threads copy already; `to` then holds
/// anything. Any thread calls: SIGBUS is not blocked in it any more.
[[nodiscard]] bool guarded_copy(std::byte* to, std::byte const* from, std::size_t bytes) noexcept;

}  // namespace gpufs::daemon
