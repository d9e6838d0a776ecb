// How long the daemon's requests to the host took: a histogram for each kind of request. Any host
// thread calls.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpufs {

/// A kind of request to the host.
/// open   A file was opened.
/// read   Bytes of a file were read, by io_uring or pread.
/// write  Dirty pages, or bytes of filesystem::write(), were written to a file.
/// sync   A file was made durable.
/// map    A file window was registered for the GPU.
/// copy   The copy engine moved bytes to GPU memory (io_path dma).
enum class host_request { open, read, write, sync, map, copy };

inline constexpr std::size_t host_request_kinds = 6;

/// The kind as text, "read".
[[nodiscard]] constexpr std::string_view name_of(host_request kind) {
  constexpr std::array<std::string_view, host_request_kinds> names{"open", "read", "write",
                                                                   "sync", "map",  "copy"};
  return names[std::size_t(kind)];
}

/// Times in nanoseconds, counted in buckets. Four buckets divide each power of two, so a percentile
/// is at most a quarter above the time that it stands for.
struct time_histogram {
  static constexpr std::size_t buckets = 148;  ///< up to 2^38 ns; the last one also has longer ones

  std::array<std::uint64_t, buckets> count{};  ///< requests of each bucket
  std::uint64_t total_ns = 0;                  ///< the sum of all times

  /// The bucket of a time.
  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t ns) noexcept {
    if (ns < 4) return std::size_t(ns);
    auto const power = std::size_t(std::bit_width(ns)) - 1;
    auto const bucket = 4 * (power - 1) + ((ns >> (power - 2)) & 3);
    return bucket < buckets ? bucket : buckets - 1;
  }

  /// The shortest time of a bucket.
  [[nodiscard]] static constexpr std::uint64_t begin_of(std::size_t bucket) noexcept {
    return bucket < 4 ? bucket : (4 + bucket % 4) << (bucket / 4 - 1);
  }

  /// The number of requests.
  [[nodiscard]] std::uint64_t requests() const noexcept;

  /// The mean time. 0: there was no request.
  [[nodiscard]] std::uint64_t mean_ns() const noexcept;

  /// The time below which `part` of the requests stayed, 0 < part <= 1: the end of their last
  /// bucket. 0: there was no request.
  [[nodiscard]] std::uint64_t below_ns(double part) const noexcept;

  /// The requests since the snapshot `earlier`.
  [[nodiscard]] time_histogram operator-(time_histogram const& earlier) const noexcept;
  /// The requests of both.
  time_histogram& operator+=(time_histogram const& other) noexcept;
};

/// A histogram for each kind of request, by its number.
using host_times = std::array<time_histogram, host_request_kinds>;

}  // namespace gpufs
