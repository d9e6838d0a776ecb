// The reads of host threads in the figures: sequential parts, and the trace of a daemon.
#include <apps/common/host_reads.hpp>
#include <test/daemon/harness.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <vector>

using namespace gpufs;
using namespace gpufs::apps;
using namespace gpufs::test;

TEST_CASE(
    "sequential_trace: each thread reads its own part in order, and all of them together every "
    "byte once") {
  for (unsigned const threads : {1u, 4u, 7u}) {
    for (std::uint64_t const bytes : {1, 4095, 4096, 100'000, 1 << 20}) {
      for (std::uint64_t const request : {512, 4096, 1 << 20}) {
        CAPTURE(threads);
        CAPTURE(bytes);
        CAPTURE(request);
        auto const trace = sequential_trace(threads, bytes, request);
        REQUIRE(trace.size() == threads);
        std::uint64_t next = 0;
        for (auto const& list : trace) {
          for (auto const& r : list) {
            CHECK(r.offset == next);
            CHECK(r.bytes > 0);
            CHECK(r.bytes <= request);
            next += r.bytes;
          }
        }
        CHECK(next == bytes);
      }
    }
  }
}

TEST_CASE(
    "trace_recorder: notes every read of the daemon once, lets them all pass, and starts anew "
    "after take()") {
  scratch_folder folder;
  auto const path = folder / "file";
  write_range(path, 0, 100'000);
  region_memory memory;
  ticket_source tickets{memory.region};
  trace_recorder recorder;
  daemon::server_settings settings;
  settings.threads = 2;
  settings.backend = io_backend::pread;
  daemon::server server{memory.region, settings, &recorder};
  server.start();
  caller c{memory.region, tickets, 0};
  auto const fd = c.open(path);
  for (int pass = 0; pass < 2; ++pass) {
    for (std::uint64_t i = 0; i < 20; ++i) CHECK(c.read(fd, i * 1000, 500) == 500);
    std::vector<std::uint64_t> offsets;
    for (auto const& list : recorder.take()) {
      for (auto const& r : list) {
        CHECK(r.bytes == 500);
        offsets.push_back(r.offset);
      }
    }
    std::ranges::sort(offsets);
    REQUIRE(offsets.size() == 20);
    for (std::uint64_t i = 0; i < 20; ++i) CHECK(offsets[i] == i * 1000);
  }
}

TEST_CASE(
    "replay_GBps: an empty trace takes no time and gives no rate; one beyond the end of the file "
    "is refused") {
  scratch_folder folder;
  auto const path = folder / "file";
  write_range(path, 0, 10'000);
  host_file const file(path);
  CHECK(replay_GBps(file, read_trace(3)) == 0);
  CHECK(replay_GBps(file, {{{0, 4096}}, {{4096, 5904}}}) > 0);
  CHECK_THROWS_AS((void)replay_GBps(file, {{{9'000, 4096}}}), std::system_error);
}
