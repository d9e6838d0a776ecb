// Storing words of the records of open files, which device code reads.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpufs::daemon {

/// Pairs with the device's acquire of the same word.
inline void store_word(std::uint64_t& word, std::uint64_t value) noexcept {
  std::atomic_ref<std::uint64_t>{word}.store(value, std::memory_order_release);
}

}  // namespace gpufs::daemon
