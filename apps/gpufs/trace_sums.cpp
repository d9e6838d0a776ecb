#include <apps/gpufs/trace_sums.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace gpufs::apps {

namespace {

constexpr std::size_t parts_of_time = 100;

void count_request(file_sums& f, traced_request const& r) {
  f.errors += r.error != 0;
  f.opens += r.op == "open";
  f.syncs += r.op == "sync";
  f.maps += r.op == "map";
  if (r.op == "read") {
    ++f.reads;
    f.bytes_read += r.bytes;
  } else if (r.op == "write") {
    ++f.writes;
    f.bytes_written += r.bytes;
  }
}

// Times of the whole trace, and the reads of its busiest part.
void measure_time(trace_sums& sums, std::vector<traced_request> const& requests) {
  if (requests.empty()) return;
  auto begin = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t end = 0;
  for (auto const& r : requests) {
    begin = std::min(begin, r.begin_ns);
    end = std::max(end, r.end_ns());
  }
  auto const length = end - begin;
  sums.seconds = double(length) / 1e9;
  if (length < parts_of_time) return;
  std::array<std::uint64_t, parts_of_time + 1> bytes{};
  for (auto const& r : requests)
    if (r.op == "read") bytes[(r.end_ns() - begin) / (length / parts_of_time + 1)] += r.bytes;
  sums.most_read_per_second =
      double(*std::ranges::max_element(bytes)) / (sums.seconds / parts_of_time);
}

}  // namespace

read_counts count_reads(std::vector<std::pair<std::uint64_t, std::uint64_t>> const& reads) {
  std::vector<std::uint64_t> begins, ends;
  for (auto const& [offset, bytes] : reads) {
    if (bytes == 0) continue;
    begins.push_back(offset);
    ends.push_back(offset + bytes);
  }
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  read_counts counts;
  std::uint64_t at = 0, depth = 0;
  for (std::size_t b = 0, e = 0; e < ends.size();) {
    // Where a read begins and another one ends, the order does not matter: no byte lies between.
    bool const is_begin = b < begins.size() && begins[b] <= ends[e];
    auto const next = is_begin ? begins[b++] : ends[e++];
    if (depth != 0 && next != at) counts[depth] += next - at;
    at = next;
    depth += is_begin ? 1 : std::uint64_t(-1);
  }
  return counts;
}

std::uint64_t file_sums::distinct_bytes() const {
  std::uint64_t sum = 0;
  for (auto const& [times, bytes] : counts) sum += bytes;
  return sum;
}

double file_sums::mean_reads() const {
  auto const distinct = distinct_bytes();
  return distinct == 0 ? 0 : double(bytes_read) / double(distinct);
}

std::uint64_t file_sums::most_reads() const { return counts.empty() ? 0 : counts.rbegin()->first; }

trace_sums sum_up(trace_lines const& trace, std::size_t slowest) {
  trace_sums sums;
  sums.files.resize(trace.files.size());
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> reads(trace.files.size());
  for (auto const& r : trace.requests) {
    count_request(sums.files[r.file], r);
    if (r.op == "read") reads[r.file].emplace_back(r.offset, r.bytes);
    auto& path = sums.paths[{r.op, r.path}];
    ++path.requests;
    path.bytes += r.bytes;
    auto& times = sums.times[r.op];
    ++times.count[time_histogram::bucket_of(r.duration_ns)];
    times.total_ns += r.duration_ns;
    if (r.length != 0) ++sums.sizes[r.op][std::bit_floor(r.length)];
    if (r.error != 0) {
      auto& error = sums.errors[{r.op, r.error}];
      if (error.requests++ == 0) error.first_line = r.line;
    }
  }
  for (std::size_t i = 0; i < sums.files.size(); ++i) {
    auto& f = sums.files[i];
    f.name = trace.files[i];
    f.counts = count_reads(reads[i]);
    sums.bytes_read += f.bytes_read;
    sums.bytes_written += f.bytes_written;
  }
  std::ranges::stable_sort(sums.files, std::ranges::greater{},
                           [](file_sums const& f) { return f.bytes_read + f.bytes_written; });
  measure_time(sums, trace.requests);
  sums.slowest.resize(std::min(slowest, trace.requests.size()));
  std::ranges::partial_sort_copy(trace.requests, sums.slowest, std::ranges::greater{},
                                 &traced_request::duration_ns, &traced_request::duration_ns);
  return sums;
}

}  // namespace gpufs::apps
