#include <apps/analytics/taxi/query.hpp>
#include <apps/harness/parallel.hpp>

#include <fmt/format.h>

#include <mutex>

namespace gpufs::apps::analytics {

namespace {

double in_units(std::int64_t hundredths) { return static_cast<double>(hundredths) / 100; }

}  // namespace

taxi_result query_on_host(unsigned query, taxi_setup const& s) {
  mapped_inputs const maps = s.data->map();
  host_inputs const in = maps.view();
  std::array<std::span<std::int64_t const>, column_count> columns;
  for (unsigned c = 0; c < column_count; ++c) columns[c] = in.as<std::int64_t>(c);
  taxi_result all;
  std::mutex mutex;
  parallel_ranges(s.rows, 1 << 18, [&](std::uint64_t begin, std::uint64_t end) {
    taxi_result part;
    for (std::uint64_t i = begin; i < end; ++i) {
      if (columns[0][i] < long_trip) continue;
      ++part.trips;
      for (unsigned c = 0; c <= query; ++c) part.sums[c] += columns[c][i];
      if (s.with_means && query == most_queries - 1) {
        std::int64_t const earned =
            earnings(columns[1][i], columns[2][i], columns[3][i], columns[4][i], columns[5][i]);
        part.ratios += ratio_of(earned, columns[0][i]);
      }
    }
    std::lock_guard const lock(mutex);
    all.trips += part.trips;
    for (unsigned c = 0; c < column_count; ++c) all.sums[c] += part.sums[c];
    all.ratios += part.ratios;
  });
  return all;
}

std::string text_of(taxi_result const& r, unsigned query, bool with_means) {
  std::string text = fmt::format("trips {}", r.trips);
  for (unsigned c = 0; c <= query; ++c)
    text += fmt::format(", {} {:.2f}", column_names[c], in_units(r.sums[c]));
  if (query != most_queries - 1 || r.trips == 0) return text;
  auto const& s = r.sums;
  text += fmt::format("; earned per mile {:.4f}",
                      in_units(earnings(s[1], s[2], s[3], s[4], s[5])) / in_units(s[0]));
  if (with_means)
    text += fmt::format(", mean of the trips {:.4f}",
                        static_cast<double>(r.ratios) / 0x1p20 / static_cast<double>(r.trips));
  return text;
}

}  // namespace gpufs::apps::analytics
