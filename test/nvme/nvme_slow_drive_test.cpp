// Volumes of drives that are slow, or whose system calls hang: each command has its own time, and a
// drive works again once its calls have returned.
#include <test/nvme/volume_scene.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;
using std::chrono::milliseconds;

TEST_CASE("slow drive: a call may last longer than its commands, without a reset") {
  // 88 commands of 30 ms each. A command waits for the 14 before it, the call for all.
  constexpr std::uint64_t size = 11 << 20;
  double const rate = 32 / 0.03;  // of 4 KiB: a command has 128 KiB
  auto const model = std::make_shared<nvme_controller::drive_model>(
      nvme_controller::drive_rates{1e6, 1e6, rate, rate, std::chrono::microseconds{1}});
  volume_scene s{{.bytes = size, .volume = {.timeout = milliseconds{2000}}, .model = model}};
  auto const what = random_bytes(1, size);
  CHECK(s.write(what, 0) == std::int64_t(size));
  CHECK(s.read(0, size) == what);
  CHECK(s.v->drives()[0]->counters().timeouts == 0);
  CHECK(s.v->drives()[0]->counters().resets == 0);
}

TEST_CASE(
    "slow drive: while a system call hangs calls are errors, and right once it has returned") {
  volume_scene s{{.volume = {.timeout = milliseconds{50}}}};
  auto const what = random_bytes(2, 5000);
  std::ranges::copy(what, s.disks[0]->bytes().begin());
  s.calls[0]->hangs = true;
  std::array<std::int64_t, 4> results{};
  std::atomic<bool> end{false};
  std::thread caller([&] {
    std::vector<std::byte> room(5000);
    for (auto& each : results) each = s.v->read(room, 0);
    end = true;
  });
  bool in_time = true;
  try {
    wait_until([&] { return end.load(); }, "the end of the calls");
  } catch (std::runtime_error const&) {
    in_time = false;
  }
  CHECK(in_time);
  s.calls[0]->release();
  caller.join();
  CHECK(results == std::array<std::int64_t, 4>{-ETIMEDOUT, -EIO, -EIO, -EIO});
  CHECK(s.v->drives()[0]->counters().resets == 1);
  wait_until([&] { return s.read(0, 5000) == what; }, "right bytes once the call has returned");
}

TEST_CASE("slow drive: system calls hang while a controller fails and threads read and write") {
  CAPTURE(seed());
  volume_scene s{{.members = 2, .volume = {.stripe = 4096, .timeout = milliseconds{500}}}};
  constexpr unsigned threads = 4;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> right{0}, wrong{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      std::uint64_t const at = t * (100 << 10) + 11;
      for (std::uint64_t round = 0; !stop; ++round) {
        auto const what = random_bytes(seed() + round * threads + t, 9000);
        bool const put = s.write(what, at) == 9000;
        auto const seen = put ? s.read(at, 9000) : std::vector<std::byte>{};
        if (seen == what)
          ++right;
        else if (seen.size() == 9000)
          ++wrong;
      }
    });
  auto const& drive = *s.v->drives()[0];
  bool recovers = true;
  try {
    for (unsigned round = 0; round < 4; ++round) {
      auto const resets = drive.counters().resets.load();
      s.calls[0]->hangs = true;
      wait_until([&] { return s.calls[0]->hanging != 0; }, "a call that hangs");
      s.faults[0]->fail = round % 2 != 0;
      wait_until([&] { return drive.counters().resets != resets; }, "a reset");
      std::vector<std::byte> room(10);
      // Some resets end before the call returns.
      if (round >= 2) wait_until([&] { return s.v->read(room, 0) == -EIO; }, "a late controller");
      s.calls[0]->release();
      s.faults[0]->fail = false;
      auto const so_far = right.load();
      wait_until([&] { return right > so_far + 10; }, "right bytes after it");
    }
  } catch (std::runtime_error const&) {
    recovers = false;
  }
  s.calls[0]->release();
  stop = true;
  for (auto& t : all) t.join();
  CHECK(recovers);
  CHECK(wrong == 0);
}

TEST_CASE("slow drive: a flush that hangs does not keep other calls for as long as it may take") {
  volume_scene s{
      {.drive = {.queue_pairs = 1, .depth = 16, .timeout = milliseconds{2000}},
       .volume = {.timeout = milliseconds{50}, .flush_timeout = std::chrono::hours{24}}}};
  auto const what = random_bytes(3, 5000);
  std::ranges::copy(what, s.disks[0]->bytes().begin());
  s.calls[0]->hangs = true;
  int flushed = 0;
  std::thread flusher([&] { flushed = s.v->flush(); });
  std::array<std::int64_t, 2> results{};
  std::atomic<bool> end{false};
  std::thread reader([&] {
    while (s.calls[0]->hanging == 0) std::this_thread::yield();
    std::vector<std::byte> room(5000);
    for (auto& each : results) each = s.v->read(room, 0);
    end = true;
  });
  bool in_time = true;
  try {
    wait_until([&] { return end.load(); }, "the end of the reads");
  } catch (std::runtime_error const&) {
    in_time = false;
  }
  CHECK(in_time);
  s.calls[0]->release();
  reader.join();
  flusher.join();
  CHECK(flushed == -ETIMEDOUT);
  CHECK(results == std::array<std::int64_t, 2>{-ETIMEDOUT, -EIO});
  wait_until([&] { return s.read(0, 5000) == what; }, "right bytes once the flush has returned");
  CHECK(s.v->flush() == 0);
}
