// Claims about what `gpufs trace` makes of a trace.
#include <apps/gpufs/trace_lines.hpp>
#include <apps/gpufs/trace_sums.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace gpufs::apps;

// A line with the requests [begin after time_ns, duration, offset] as they stand in `requests`.
std::string line_of(std::string const& op, std::uint64_t bytes, std::string const& requests,
                    std::uint64_t time_ns = 0, int error = 0, std::string const& file = "f") {
  return "{\"op\": \"" + op + "\", \"file\": \"" + file +
         "\", \"path\": \"pull\", \"thread\": 1, \"length\": " + std::to_string(bytes) +
         ", \"bytes\": " + std::to_string(error != 0 ? 0 : bytes) +
         ", \"errno\": " + std::to_string(error) + ", \"time_ns\": " + std::to_string(time_ns) +
         ", \"requests\": [" + requests + "]}\n";
}

std::string line(std::string const& op, std::uint64_t offset, std::uint64_t bytes,
                 std::uint64_t begin = 0, std::uint64_t took = 10, int error = 0,
                 std::string const& file = "f") {
  auto const own = "[0, " + std::to_string(took) + ", " + std::to_string(offset) + "]";
  return line_of(op, bytes, own, begin, error, file);
}

TEST_CASE("trace sums: how often each byte was read, for any reads") {
  std::mt19937_64 random(gpufs::test::seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> reads;
    std::vector<std::uint64_t> times(300, 0);
    for (auto n = random() % 40; n > 0; --n) {
      auto const offset = random() % 200, bytes = random() % 100;
      reads.emplace_back(offset, bytes);
      for (auto i = offset; i < offset + bytes; ++i) ++times[i];
    }
    read_counts expected;
    for (auto const t : times)
      if (t != 0) ++expected[t];
    CHECK(count_reads(reads) == expected);
  }
}

TEST_CASE("trace sums: bytes at the far end of a file, and reads of no bytes") {
  constexpr std::uint64_t far = (1ull << 63) - 10;
  CHECK(count_reads({{far, 9}, {far, 9}, {0, 0}}) == read_counts{{2, 9}});
  CHECK(count_reads({}).empty());
}

TEST_CASE("trace sums: files, errors, sizes, times and the slowest requests") {
  auto const trace = parse_trace(line("read", 0, 4096, 0, 100) + line("read", 2048, 4096, 50, 900) +
                                 line("read", 0, 4096, 60, 5, 5) + line("write", 0, 100, 70, 7) +
                                 line("open", 0, 0, 80, 20, 2, "missing"));
  CHECK(trace.malformed.empty());
  auto const sums = sum_up(trace, 2);
  REQUIRE(sums.files.size() == 2);
  auto const& f = sums.files[0];
  CHECK(f.name == "f");
  CHECK(f.reads == 3);
  CHECK(f.bytes_read == 8192);
  CHECK(f.distinct_bytes() == 6144);
  CHECK(f.mean_reads() == doctest::Approx(8192.0 / 6144));
  CHECK(f.most_reads() == 2);
  CHECK(f.counts == read_counts{{1, 4096}, {2, 2048}});
  CHECK(f.errors == 1);
  CHECK(sums.files[1].opens == 1);
  CHECK(sums.errors.at({"read", 5}).first_line == 3);
  CHECK(sums.errors.at({"open", 2}).requests == 1);
  CHECK(sums.sizes.at("read") == std::map<std::uint64_t, std::uint64_t>{{4096, 3}});
  CHECK(sums.paths.at({"read", "pull"}).bytes == 8192);
  CHECK(sums.seconds == doctest::Approx(950e-9));
  REQUIRE(sums.slowest.size() == 2);
  CHECK(sums.slowest[0].duration_ns == 900);
  CHECK(sums.slowest[1].line == 1);
  CHECK(sums.times.at("read").requests() == 3);
}

TEST_CASE("trace lines: requests that share a line have a begin, a duration and an offset each") {
  auto const trace =
      parse_trace(line_of("read", 4096, "[0, 10, 8192], [-7, 20, 0], [5, 0, 4096]", 1000));
  CHECK(trace.malformed.empty());
  REQUIRE(trace.requests.size() == 3);
  std::uint64_t const begins[] = {1000, 993, 1005}, ends[] = {1010, 1013, 1005},
                      offsets[] = {8192, 0, 4096};
  for (std::size_t i = 0; i < 3; ++i) {
    auto const& r = trace.requests[i];
    CHECK(r.begin_ns == begins[i]);
    CHECK(r.end_ns() == ends[i]);
    CHECK(r.offset == offsets[i]);
    CHECK(r.bytes == 4096);
    CHECK(r.line == 1);
  }
  CHECK(sum_up(trace, 3).files.at(0).counts == read_counts{{1, 3 * 4096}});
}

TEST_CASE("trace lines: a line whose requests are none is malformed as a whole") {
  auto const largest = std::to_string(~0ull >> 1), above = std::to_string((~0ull >> 1) + 1);
  for (std::string const& requests :
       {std::string{}, std::string{"[0, 1]"}, std::string{"[0, 1, 2, 3]"}, std::string{"7"},
        std::string{"[0, -1, 0]"}, std::string{"[0, 1, -1]"}, std::string{"[0.5, 1, 0]"},
        std::string{"[-1001, 1, 0]"}, "[" + above + ", 1, 0]", "[" + largest + ", 1, 0]",
        "[0, " + largest + ", 0]", "[0, 1, " + largest + "]"}) {
    auto const trace = parse_trace(line_of("read", 1, "[0, 1, 0], " + requests, 1000));
    CHECK_MESSAGE(trace.malformed.size() == 1, requests);
    CHECK_MESSAGE(trace.requests.empty(), requests);
    CHECK(trace.files.empty());
  }
  CHECK(parse_trace(line_of("read", 1, "", 0)).malformed.size() == 1);
}

TEST_CASE("trace sums: a trace without requests") {
  auto const sums = sum_up(parse_trace(""), 10);
  CHECK(sums.files.empty());
  CHECK(sums.slowest.empty());
  CHECK(sums.seconds == 0);
}

TEST_CASE("trace lines: what is none of a trace is named by its number, the others count") {
  auto const trace = parse_trace(
      "{\"op\": \"begin\"}\n" + line("read", 0, 1) + "no JSON\n\n[1]\n{\"op\": \"read\"}\n" +
      line("read", (1ull << 63) - 1, 2) + line("read", 0, 1, 0, 1, 5000) +
      "{\"op\": 3}\n{\"op\": \"end\", \"dropped\": 7}\n{\"op\": \"end\"}\n" +
      line("read", 0, 1).substr(0, 60));
  std::vector<std::uint64_t> numbers;
  for (auto const& m : trace.malformed) numbers.push_back(m.line);
  CHECK(numbers == std::vector<std::uint64_t>{3, 4, 5, 6, 7, 8, 9, 11, 12});
  CHECK(trace.requests.size() == 1);
  CHECK(trace.begun == 1);
  CHECK(trace.ended == 1);
  CHECK(trace.dropped == 7);
}

TEST_CASE("time_histogram: each time lies in its bucket, and percentiles are upper ends") {
  using gpufs::time_histogram;
  for (std::size_t b = 0; b < time_histogram::buckets; ++b) {
    CHECK(time_histogram::bucket_of(time_histogram::begin_of(b)) == b);
    if (b + 1 < time_histogram::buckets)
      CHECK(time_histogram::bucket_of(time_histogram::begin_of(b + 1) - 1) == b);
  }
  CHECK(time_histogram::bucket_of(~0ull) == time_histogram::buckets - 1);
  time_histogram h;
  CHECK(h.mean_ns() == 0);
  CHECK(h.below_ns(0.5) == 0);
  for (std::uint64_t ns = 1; ns <= 1000; ++ns) {
    ++h.count[time_histogram::bucket_of(ns)];
    h.total_ns += ns;
  }
  CHECK(h.requests() == 1000);
  CHECK(h.mean_ns() == 500);
  for (auto const part : {0.01, 0.5, 0.99, 1.0}) {
    CHECK(double(h.below_ns(part)) > 1000 * part);
    CHECK(double(h.below_ns(part)) <= 1250 * part + 4);
  }
  auto const twice = time_histogram(h) += h;
  CHECK((twice - h).requests() == 1000);
  CHECK((twice - h).total_ns == h.total_ns);
}

}  // namespace
