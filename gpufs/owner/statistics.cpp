#include <gpufs/statistics.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>

namespace gpufs {

namespace {

struct field {
  char const* name;
  std::uint64_t statistics::*value;
};

#define GPUFS_FIELD(name, help) field{#name, &statistics::name},
constexpr std::array fields{GPUFS_DEVICE_COUNTERS(GPUFS_FIELD) GPUFS_HOST_COUNTERS(GPUFS_FIELD)};
#undef GPUFS_FIELD

std::string microseconds(std::uint64_t ns) {
  return ns < 1'000'000 ? fmt::format("{:.1f} us", double(ns) / 1e3)
                        : fmt::format("{:.1f} ms", double(ns) / 1e6);
}

std::string to_json(time_histogram const& h) {
  std::string buckets;
  for (std::size_t b = 0; b < h.buckets; ++b) {
    if (h.count[b] != 0)
      buckets += fmt::format("{}[{}, {}]", buckets.empty() ? "" : ", ", h.begin_of(b), h.count[b]);
  }
  return fmt::format(
      "{{\"requests\": {}, \"mean_ns\": {}, \"p50_ns\": {}, \"p99_ns\": {}, \"buckets\": [{}]}}",
      h.requests(), h.mean_ns(), h.below_ns(0.5), h.below_ns(0.99), buckets);
}

/// Calls visit(name, histogram) for each kind of request that was made.
template <class Visit>
void each_kind(host_times const& times, Visit visit) {
  for (std::size_t kind = 0; kind < times.size(); ++kind)
    if (times[kind].requests() != 0) visit(name_of(host_request(kind)), times[kind]);
}

}  // namespace

std::uint64_t time_histogram::requests() const noexcept {
  return std::accumulate(count.begin(), count.end(), std::uint64_t(0));
}

std::uint64_t time_histogram::mean_ns() const noexcept {
  auto const n = requests();
  return n == 0 ? 0 : total_ns / n;
}

std::uint64_t time_histogram::below_ns(double part) const noexcept {
  auto const wanted = part * double(requests());
  std::uint64_t before = 0;
  std::size_t last = buckets;  // none
  for (std::size_t b = 0; b < buckets && (last == buckets || double(before) < wanted); ++b) {
    before += count[b];
    if (count[b] != 0) last = b;
  }
  return last == buckets ? 0 : begin_of(last + 1);
}

time_histogram time_histogram::operator-(time_histogram const& earlier) const noexcept {
  auto d = *this;
  for (std::size_t b = 0; b < buckets; ++b) d.count[b] -= earlier.count[b];
  d.total_ns -= earlier.total_ns;
  return d;
}

time_histogram& time_histogram::operator+=(time_histogram const& other) noexcept {
  for (std::size_t b = 0; b < buckets; ++b) count[b] += other.count[b];
  total_ns += other.total_ns;
  return *this;
}

statistics statistics::operator-(statistics const& earlier) const {
  statistics d;
  for (auto const& f : fields) d.*f.value = this->*f.value - earlier.*f.value;
  for (std::size_t kind = 0; kind < times.size(); ++kind)
    d.times[kind] = times[kind] - earlier.times[kind];
  return d;
}

std::string to_text(statistics const& s) {
  std::string out;
  for (auto const& f : fields) {
    if (s.*f.value != 0) out += fmt::format("  {:<18} {}\n", f.name, s.*f.value);
  }
  each_kind(s.times, [&](std::string_view name, time_histogram const& h) {
    out += fmt::format("  {:<18} {} requests, half below {}, 99 % below {}, all below {}\n",
                       fmt::format("{} times", name), h.requests(), microseconds(h.below_ns(0.5)),
                       microseconds(h.below_ns(0.99)), microseconds(h.below_ns(1)));
  });
  return out;
}

std::string to_json_fields(statistics const& s) {
  std::string out;
  for (auto const& f : fields)
    out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", f.name, s.*f.value);
  std::string kinds;
  each_kind(s.times, [&](std::string_view name, time_histogram const& h) {
    kinds += fmt::format("{}\"{}\": {}", kinds.empty() ? "" : ", ", name, to_json(h));
  });
  return out + fmt::format(", \"host_times\": {{{}}}", kinds);
}

}  // namespace gpufs
