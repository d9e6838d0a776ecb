// Settings and sizes that the suites of the core share.
#pragma once

#include <gpufs/config.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

namespace gpufs::test {

/// ThreadSanitizer's fibers are few and heavy: kernels stay at about 8 resident blocks of 64
/// threads.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif

/// Code that counts its branches is not optimised.
#if defined(GPUFS_COVERAGE)
inline constexpr bool counts_branches = true;
#else
inline constexpr bool counts_branches = false;
#endif

/// The ways for bytes to arrive that validate() admits, for suites whose claims hold for all of
/// them.
inline constexpr io_path built_paths[] = {io_path::automatic, io_path::pull, io_path::direct,
                                          io_path::dma, io_path::registered};

/// `many`, or `few` in slow code.
inline constexpr unsigned scaled(unsigned many, unsigned few) {
  return thread_sanitizer || counts_branches ? few : many;
}

/// A filesystem of `frames` pages without readahead, whose waits are long enough never to end on a
/// slow machine. The environment is not consulted.
inline config small_config(std::uint64_t page_size, std::uint64_t frames) {
  config c;
  c.page_size = page_size;
  c.cache_size = page_size * frames;
  c.prefetch_size = 0;
  c.prefetch_memory = 4 << 20;
  c.host_threads = 2;
  c.rpc_timeout_ms = 120'000;
  c.staging_size = page_size * 16 < (1 << 20) ? 1 << 20 : page_size * 16;
  c.max_open_files = 64;
  c.seats = 64;
  return c;
}

/// Waits until `condition` holds. Throws if it does not within two minutes: a bound for broken
/// code, not a measure of speed.
template <class Condition>
void wait_until(Condition const& condition, char const* what) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::minutes{2};
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end)
      throw std::runtime_error{std::string{"never happened: "} + what};
    std::this_thread::yield();
  }
}

}  // namespace gpufs::test
