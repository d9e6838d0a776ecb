// Which bytes of the file each block of a benchmark reads, in which order. One description for
// kernels, host checks and tests.
#pragma once

#include <apps/common/generator.hpp>

#include <cstdint>

namespace gpufs::apps {

enum class access_pattern { sequential, strided, random };

/// One gread.
struct access {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t number;  ///< of all requests of the plan, from 0
};

/// Trivially copyable; its functions are callable on device and host.
///   sequential  block b reads [b * stride, min(bytes, (b + 1) * stride)) in ranges of `request`
///   strided     range k lies at k * stride, k * stride < bytes; block b reads ranges b, b +
///   blocks, ... random      request i is a random range of the `bytes / request` whole ones, or
///   range drawn[i]; block b does i = b, b + blocks, ...
/// Where warps read, each for itself, they are its blocks.
struct access_plan {
  access_pattern pattern = access_pattern::sequential;
  std::uint64_t blocks = 1;
  std::uint64_t request = 1;  ///< bytes per gread
  std::uint64_t bytes = 0;    ///< of the file that take part, from its start
  std::uint64_t stride = 1;
  std::uint64_t draws = 0;  ///< random: how many requests in all
  std::uint64_t seed = 0;
  /// random: null, or `draws` chunk numbers, in memory that the reader of the plan can access
  std::uint32_t const* drawn = nullptr;

  /// Where the part of block `b` ends; sequential only.
  [[nodiscard]] constexpr std::uint64_t part_end(std::uint64_t b) const {
    return bytes - b * stride < stride ? bytes : (b + 1) * stride;
  }

  /// Requests that block `b` makes.
  [[nodiscard]] constexpr std::uint64_t requests_of(std::uint64_t b) const {
    if (pattern == access_pattern::sequential) {
      return b * stride >= bytes ? 0 : ranges(part_end(b) - b * stride, request);
    }
    std::uint64_t const all = pattern == access_pattern::strided ? ranges(bytes, stride) : draws;
    return b >= all ? 0 : ranges(all - b, blocks);
  }

  /// Request `i` of block `b`, i < requests_of(b).
  [[nodiscard]] constexpr access at(std::uint64_t b, std::uint64_t i) const {
    if (pattern == access_pattern::sequential) {
      std::uint64_t const offset = b * stride + i * request;
      std::uint64_t const left = part_end(b) - offset;
      return {offset, left < request ? left : request, b * ranges(stride, request) + i};
    }
    std::uint64_t const number = b + i * blocks;
    if (pattern == access_pattern::strided) {
      std::uint64_t const left = bytes - number * stride;
      return {number * stride, left < request ? left : request, number};
    }
    return {(drawn != nullptr ? drawn[number] : generate_below(seed, number, bytes / request)) *
                request,
            request, number};
  }

  /// Upper bound of access::number.
  [[nodiscard]] constexpr std::uint64_t numbers() const {
    if (pattern == access_pattern::sequential) return blocks * ranges(stride, request);
    return pattern == access_pattern::strided ? ranges(bytes, stride) : draws;
  }

  /// Bytes that all blocks read together.
  [[nodiscard]] constexpr std::uint64_t payload() const {
    if (pattern == access_pattern::sequential) return bytes;
    if (pattern == access_pattern::random) return draws * request;
    if (bytes == 0) return 0;
    std::uint64_t const last = (ranges(bytes, stride) - 1) * stride;
    return last / stride * request + (bytes - last < request ? bytes - last : request);
  }

  /// The stride that shares `bytes` bytes out to `blocks` blocks, in parts of whole requests, as
  /// evenly as possible.
  static constexpr std::uint64_t even_stride(std::uint64_t bytes, std::uint64_t request,
                                             std::uint64_t blocks) {
    return ranges(ranges(bytes, request), blocks) * request;
  }

  static constexpr std::uint64_t ranges(std::uint64_t n, std::uint64_t unit) {
    return n / unit + (n % unit != 0);
  }
};

}  // namespace gpufs::apps
