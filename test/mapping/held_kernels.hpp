// Kernels that go on when the host says so, and a host that knows how far they are.
#pragma once

#include <gpufs/device/atomic.hpp>
#include <gpufs/mapping.hpp>

#include <cstdint>

#include <sched.h>

namespace gpufs::test {

using shared_word = gpufs::atomic_ref<std::uint32_t, scope::system>;

__device__ __forceinline__ void wait_in_kernel(std::uint32_t& word, std::uint32_t least) {
  unsigned state = 0;
  while (shared_word(word).load(gpufs::memory_order_acquire) < least) backoff(state);
}

/// Words in memory that host and kernels use at any time.
class handshake {
 public:
  handshake() : words_(2) { words_.fill_zero(); }

  /// What a kernel gets: it stores how far it is to [0], and waits for [1].
  [[nodiscard]] std::uint32_t* data() { return &words_[0]; }

  void wait_for_kernel(std::uint32_t least) {
    while (shared_word(words_[0]).load(gpufs::memory_order_acquire) < least) ::sched_yield();
  }
  void let_go(std::uint32_t value = 1) {
    shared_word(words_[1]).store(value, gpufs::memory_order_release);
  }
  [[nodiscard]] bool is_reached(std::uint32_t least) {
    return shared_word(words_[0]).load(gpufs::memory_order_acquire) >= least;
  }

 private:
  pinned_buffer<std::uint32_t> words_;
};

/// Kernels get addresses of their own, which depend on where an object lies.
#if defined(GPUFS_SEPARATE_SIDES)
inline constexpr bool separate_sides = true;
#else
inline constexpr bool separate_sides = false;
#endif

/// Settings with the addresses that for_kernels() counts on.
inline mapping_config settings_of_suite(std::uint64_t block = block_automatic) {
  mapping_config c;
  c.address_space = 64ull << 30;
  c.coherence_block = block;
  return c;
}

/// What kernels get as the words of an object. Where both sides have memory of their own
/// (GPUFS_SEPARATE_SIDES), that is where the library has the device's, or the host's if the device
/// uses that.
inline std::uint32_t* for_kernels(mapping const& m) {
#if defined(GPUFS_SEPARATE_SIDES)
  std::uint64_t const further = m.tiers().device != 0 ? 2 : 1;
  return m.as<std::uint32_t>() + further * (settings_of_suite().address_space / 4);
#else
  return m.as<std::uint32_t>();
#endif
}

/// Loads and stores of words that kernels use meanwhile.
inline std::uint32_t word_at(mapping const& m, std::uint64_t i) {
  return shared_word(m.as<std::uint32_t>()[i]).load(gpufs::memory_order_relaxed);
}

/// Stores `value` to words [0, count / 2), says so, and to the others when the host lets it.
[[maybe_unused]] static __global__ void store_in_halves(std::uint32_t* words, std::uint64_t count,
                                                        std::uint32_t value,
                                                        std::uint32_t* handshake) {
  auto const store = [&](std::uint64_t i) {
    shared_word(words[i]).store(value, gpufs::memory_order_relaxed);
  };
  for (std::uint64_t i = 0; i < count / 2; ++i) store(i);
  shared_word(handshake[0]).store(1, gpufs::memory_order_release);
  wait_in_kernel(handshake[1], 1);
  for (std::uint64_t i = count / 2; i < count; ++i) store(i);
}

}  // namespace gpufs::test
