#include <apps/analytics/taxi/columns.hpp>
#include <apps/common/generator.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace gpufs::apps::analytics {

namespace {

/// Draws of a row: each is a sequence of its own, with the seed plus this.
enum draw : std::uint64_t { rate = 1, trip, length, noise, surcharge, hail, tolls };

/// 3.006e-4 as a part of 2^64: 511 thousand of 1.7 thousand million trips.
constexpr std::uint64_t long_part = 5545091268557091;
static_assert(long_part / 0x1p64 > 3.0059e-4 && long_part / 0x1p64 < 3.0061e-4);

constexpr unsigned table_bits = 6;
constexpr unsigned fraction_bits = 32;

/// 2^32 times the logarithm of 1 + step / 64 to the base 2, by repeated squares.
constexpr std::uint64_t log2_of_step(unsigned step) {
  std::uint64_t x = (std::uint64_t{1} << 62) + (std::uint64_t{step} << (62 - table_bits));
  std::uint64_t result = 0;
  for (unsigned bit = 0; bit < fraction_bits; ++bit) {
    x = static_cast<std::uint64_t>(static_cast<unsigned __int128>(x) * x >> 62);
    result = result * 2 + (x >> 63);
    if ((x >> 63) != 0) x >>= 1;
  }
  return result;
}

constexpr auto log2_table = [] {
  std::array<std::uint64_t, (1u << table_bits) + 1> table{};
  for (unsigned i = 0; i < 1u << table_bits; ++i) table[i] = log2_of_step(i);
  table[1u << table_bits] = std::uint64_t{1} << fraction_bits;
  return table;
}();
static_assert(log2_table[0] == 0 && log2_table[32] / 0x1p32 > 0.58496 &&
              log2_table[32] / 0x1p32 < 0.58497);

/// -ln(draw / 2^64), times 2^32, with lines between the steps of the table. Whole numbers give the
/// same files on all machines.
constexpr std::uint64_t minus_logarithm(std::uint64_t draw) {
  constexpr std::uint64_t ln2 = 2977044471;  // times 2^32
  draw |= 1;
  auto const zeros = static_cast<unsigned>(std::countl_zero(draw));
  std::uint64_t const fraction = zeros == 63 ? 0 : draw << (zeros + 1);  // of 2^64
  std::uint64_t const step = fraction >> (64 - table_bits);
  std::uint64_t const rest = fraction << table_bits >> 32;
  std::uint64_t const low = log2_table[step], high = log2_table[step + 1];
  std::uint64_t const log2 = low + ((high - low) * rest >> 32);
  std::uint64_t const missing = (std::uint64_t{zeros + 1} << fraction_bits) - log2;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(missing) * ln2 >> fraction_bits);
}
static_assert(minus_logarithm(1ull << 63) / 0x1p32 > 0.6931 &&
              minus_logarithm(1ull << 63) / 0x1p32 < 0.6932);

}  // namespace

bool taxi_rows::is_long(std::uint64_t row) const {
  if (how_ == clustering::runs) return generate(seed_ + trip, row / 64) < long_part;
  std::uint64_t part = long_part;
  if (how_ == clustering::mixed) {
    // On average the rate is that of the others.
    std::uint64_t const sixth = generate_below(seed_ + rate, row / 4096, 6);
    part *= sixth < 3 ? 0 : sixth < 5 ? 1 : 4;
  }
  return generate(seed_ + trip, row) < part;
}

std::int64_t taxi_rows::distance(std::uint64_t row) const {
  if (is_long(row))
    return long_trip + static_cast<std::int64_t>(generate_below(seed_ + length, row, 6000));
  // 0.3 miles, and 2.6 on average beyond that.
  std::uint64_t const beyond = 260 * minus_logarithm(generate(seed_ + length, row)) >> 32;
  return std::min<std::int64_t>(long_trip - 1, 30 + static_cast<std::int64_t>(beyond));
}

std::int64_t taxi_rows::value(unsigned column, std::uint64_t row) const {
  constexpr std::int64_t surcharges[] = {0, 50, 100, 250};
  switch (column) {
    case 0: return distance(row);
    case 1:
      return 300 + 275 * distance(row) / 100 +
             static_cast<std::int64_t>(generate_below(seed_ + noise, row, 200));
    case 2: return surcharges[generate_below(seed_ + surcharge, row, 4)];
    case 3: return generate_below(seed_ + hail, row, 100) < 97 ? 0 : 275;
    case 4: return is_long(row) && generate_below(seed_ + tolls, row, 10) < 3 ? 655 : 0;
    default: return 50;
  }
}

std::vector<input_file> taxi_files(std::uint64_t rows, std::uint64_t seed, clustering how) {
  std::vector<input_file> files;
  taxi_rows const all(seed, how);
  for (unsigned column = 0; column < column_count; ++column) {
    files.push_back(whole_file(std::string(column_names[column]) + ".i64",
                               rows * sizeof(std::int64_t), sizeof(std::int64_t),
                               fill_elements<std::int64_t>([all, column](std::uint64_t row) {
                                 return all.value(column, row);
                               })));
  }
  return files;
}

clustering clustering_named(std::string_view name) {
  if (name == "scattered") return clustering::scattered;
  if (name == "runs") return clustering::runs;
  if (name == "mixed") return clustering::mixed;
  throw usage_error(fmt::format("--clustering={}: must be scattered, runs or mixed", name));
}

}  // namespace gpufs::apps::analytics
