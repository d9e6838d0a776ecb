// Which bytes of the file each block of a benchmark reads, in which order. One description for
// kernels, host checks and tests.
#pragma once

#include <apps/common/generator.hpp>

#include <cstdint>

namespace gpufs::apps {

enum class access_pattern { sequential, strided, random, columns };

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
///   columns     column c is the ranges at c * request, + stride, + 2 * stride, ...; block b reads
///   column b modulo the columns; blocks of one column share its rows out. With fewer blocks than
///   columns block b reads columns b, b + blocks, ... `stride` is a multiple of `request`, and
///   `bytes` one of `stride`
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

  /// How many columns there are, into how many parts each is shared out, and the first row of a
  /// part; columns only.
  [[nodiscard]] constexpr std::uint64_t columns() const { return stride / request; }
  [[nodiscard]] constexpr std::uint64_t column_parts() const {
    return blocks < columns() ? 1 : blocks / columns();
  }
  [[nodiscard]] constexpr std::uint64_t first_row(std::uint64_t part) const {
    return bytes / stride * part / column_parts();
  }

  /// Requests that block `b` makes.
  [[nodiscard]] constexpr std::uint64_t requests_of(std::uint64_t b) const {
    if (pattern == access_pattern::sequential) {
      return b * stride >= bytes ? 0 : ranges(part_end(b) - b * stride, request);
    }
    if (pattern == access_pattern::columns) {
      std::uint64_t const part = b / columns();
      if (part >= column_parts()) return 0;
      std::uint64_t const mine = blocks < columns() ? ranges(columns() - b, blocks) : 1;
      return mine * (first_row(part + 1) - first_row(part));
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
    if (pattern == access_pattern::columns) {
      std::uint64_t const first = first_row(b / columns());
      std::uint64_t const rows = first_row(b / columns() + 1) - first;
      std::uint64_t const column = b % columns() + i / rows * blocks;
      std::uint64_t const number = (first + i % rows) * columns() + column;
      return {number * request, request, number};
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
    if (pattern == access_pattern::columns) return bytes / request;
    return pattern == access_pattern::strided ? ranges(bytes, stride) : draws;
  }

  /// Bytes that all blocks read together.
  [[nodiscard]] constexpr std::uint64_t payload() const {
    if (pattern == access_pattern::sequential || pattern == access_pattern::columns) return bytes;
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
