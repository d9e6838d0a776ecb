// Waiting for a word of memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpufs::shared {

/// Waits until the word is other than `seen`, or for no reason. Safe in a signal handler.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept;
/// The same for at most 50 us.
void futex_wait_shortly(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept;
/// Wakes all that wait for the word. The word may be gone by now.
void futex_wake(std::atomic<std::uint32_t>* word) noexcept;

}  // namespace gpufs::shared
