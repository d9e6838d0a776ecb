// Locality-sensitive hashing of histograms: which tiles may be near a given one. The index file,
// how it is built and looked up.
#pragma once

#include <apps/mosaic/tile.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gpufs::apps {

inline constexpr unsigned most_tables = 32;      ///< hash functions, each with a table of its own
inline constexpr unsigned most_key_bits = 31;    ///< of a hash function
inline constexpr unsigned lsh_dimensions = 192;  ///< 3 x 64: four neighbouring bins are one
/// ids that a bucket keeps: those of the smallest numbers
inline constexpr unsigned list_limit = 32;
inline constexpr unsigned candidate_limit = 256;

/// What is subtracted from each of the 192 sums if the index is centred: their mean, 1024 / 64.
inline constexpr std::int32_t compacted_mean = 16;

/// The arrays of an index, in host or device memory. Trivially copyable. Hash function t is the
/// signs of bits_ dot products, the first one the most significant bit. Table t has keys
/// [table_begin[t], table_begin[t + 1]), sorted; key k the ids [list_begin[k], list_begin[k + 1]),
/// sorted.
struct lsh_view {
  std::int32_t const* coefficients;  ///< [lsh_dimensions][tables * bits]
  std::uint32_t const* table_begin;
  std::uint32_t const* keys;
  std::uint32_t const* list_begin;
  std::uint32_t const* ids;
  std::uint32_t tables;
  std::uint32_t bits;
  std::int32_t subtract;  ///< compacted_mean or 0
};

struct lsh_index {
  std::uint64_t tiles = 0;  ///< of the database; ids are below it
  std::uint32_t tables = 0;
  std::uint32_t bits = 0;
  bool centred = false;
  std::vector<std::int32_t> coefficients;
  std::vector<std::uint32_t> table_begin;
  std::vector<std::uint32_t> keys;
  std::vector<std::uint32_t> list_begin;
  std::vector<std::uint32_t> ids;

  [[nodiscard]] lsh_view view() const {
    return {coefficients.data(),
            table_begin.data(),
            keys.data(),
            list_begin.data(),
            ids.data(),
            tables,
            bits,
            centred ? compacted_mean : 0};
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return 4 * (coefficients.size() + table_begin.size() + keys.size() + list_begin.size() +
                ids.size());
  }
};

/// How full the buckets were.
struct bucket_occupancy {
  std::uint64_t buckets = 0;
  std::uint64_t largest = 0;                  ///< before it was cut
  std::uint64_t cut = 0;                      ///< ids that did not fit their bucket
  std::uint64_t lost = 0;                     ///< tiles that no table has
  std::array<std::uint64_t, 7> of_size = {};  ///< buckets of 1, 2, 3-4, 5-8, 9-16, 17-32, more ids
};

struct lsh_options {
  std::uint32_t tables = most_tables;
  std::uint32_t bits = 19;
  bool centred = false;
  std::uint64_t seed = 1;
};

/// 64 sums for each channel, less `subtract`.
using compacted = std::array<std::int32_t, lsh_dimensions>;
[[nodiscard]] compacted compact(histogram const& h, std::int32_t subtract);

/// The keys of a histogram in all tables. `keys` has as many elements.
void keys_of(lsh_view const& index, compacted const& x, std::span<std::uint32_t> keys);

/// Coefficients: normal deviates times 1024, rounded.
[[nodiscard]] std::vector<std::int32_t> draw_coefficients(lsh_options const& o);

/// Puts tiles into tables by their keys, `keys[t][i]` being tile i's in table t. Throws
/// std::length_error if there are more than 2^32 entries.
[[nodiscard]] lsh_index make_index(lsh_options const& o, std::vector<std::int32_t> coefficients,
                                   std::vector<std::vector<std::uint32_t>> const& keys,
                                   bucket_occupancy& occupancy);

/// The index of `tiles` histograms; `read(first, to)` delivers those from number `first` on, called
/// by several threads at once.
using read_histograms = std::function<void(std::uint64_t first, std::span<histogram> to)>;
[[nodiscard]] lsh_index build_index(lsh_options const& o, std::uint64_t tiles,
                                    read_histograms const& read, bucket_occupancy& occupancy);

/// Throws std::system_error naming the path.
void save_index(lsh_index const& index, std::string const& path);

/// Throws std::runtime_error naming the path and what is wrong: not an index, of another version,
/// cut off, damaged. What it returns can be looked up without further checks. Throws
/// std::system_error if the file cannot be read.
[[nodiscard]] lsh_index load_index(std::string const& path);

/// What is wrong with an index; empty if nothing is.
[[nodiscard]] std::string flaw(lsh_index const& index);

}  // namespace gpufs::apps
