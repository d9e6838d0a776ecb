// Counts what staging has cost of each file window, to tell when registering the window pays.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpufs::daemon {

/// Staging brings requests of this many bytes at nearly the rate of the bus.
inline constexpr std::uint64_t long_request = 32 << 10;

/// Whether a read request of `length` bytes is a sign of random access. `is_chunk`: the prefetcher
/// asks for a chunk. A stream asks for long chunks. Random access asks for pages one by one, and
/// for short chunks where pages lie together.
[[nodiscard]] constexpr bool is_random(std::uint64_t length, bool is_chunk) noexcept {
  return !is_chunk || length < long_request;
}

/// Returns the cost of staging `length` bytes, in bytes that are staged by pages of 4 KiB. A
/// shorter request costs as much as one of 4 KiB, because the system call is most of it.
///
/// Only short requests for single elements count in full. Staging brings a page for each of them,
/// and a window would give the element alone: 60 instead of 2 million a second (H200).
///
/// Pages that a kernel reads by gread count a fifth. Then a window is registered after 5/4 of its
/// bytes: never by a file that is read once. The reason: registering during such a pass cost more
/// than the windows gained. 4 KiB pages of columns came at 25.9 GB/s without, and at 22.5 GB/s
/// with it (H200).
[[nodiscard]] constexpr std::uint64_t staging_cost(std::uint64_t length,
                                                   bool for_elements) noexcept {
  constexpr std::uint64_t shortest = 4096;
  auto const bytes = length < shortest ? shortest : length;
  return for_elements && length < long_request ? bytes : bytes / 5;
}

/// Problem: registering a window costs more than staging a few of its pages. How much will be read
///   of it is not known before.
/// Trick: the window is registered once staging has cost as much. Whatever is read after that, both
///   together cost the host about twice the cheaper one of the two at most.
///
/// The sum for a window of 16 MiB: registering runs at 20 GB/s (docs/benchmarks.md) and takes
/// 0.84 ms of a core. Staging a page of 4 KiB takes a microsecond of a core
/// (docs/design/registered.md), all 4096 pages take 4.1 ms. The costs are equal after 1/5 of the
/// window's bytes. `part` is the next power of two above.
///
/// The table has a fixed size. A full set gives its smallest count to a window that it does not
/// have. So counts of windows that are read no more do not stay for ever, and each window that is
/// found worth it was paid for in full, if perhaps by another one's reads.
class window_demand {
 public:
  /// A window is worth registering after reads that cost `window_bytes` / `part`. `window_bytes` is
  /// at most 1 GiB.
  explicit window_demand(std::uint64_t window_bytes) noexcept : enough_{window_bytes / part} {}

  /// Adds `cost` to the count of the window with the hash `key`. Returns whether the window is
  /// worth registering now; then its count begins anew at 0. Any thread calls; it never waits. A
  /// call may be lost while other threads call.
  [[nodiscard]] bool add(std::uint64_t key, std::uint64_t cost) noexcept;

  static constexpr std::uint64_t part = 4;
  static constexpr std::size_t sets = 2048, ways = 8;

 private:
  //  63   32 31    0
  //  tag    | count      0: empty
  //
  // A cache line of counters.
  struct alignas(64) set {
    std::array<std::atomic<std::uint64_t>, ways> counter{};
  };

  std::uint64_t const enough_;
  std::array<set, sets> sets_{};
};

}  // namespace gpufs::daemon
