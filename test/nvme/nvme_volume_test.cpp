// Volumes of drives that the host drives, without a filesystem: ranges larger than all slots,
// errors in the middle of a range, deadlines, threads that share blocks, and resets under load.
#include <test/nvme/volume_scene.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <nvme-controller/controller.hpp>
#include <nvme-host/errors.hpp>
#include <nvme-host/software.hpp>
#include <nvme-host/volume.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sys/uio.h>

using namespace gpufs;
using namespace gpufs::test;
using namespace gpufs::nvme_host;
using std::chrono::milliseconds;
using bytes = std::vector<std::byte>;
using shape = volume_shape;
using scene = volume_scene;

TEST_CASE("volume: many threads move ranges that are larger than all slots together") {
  CAPTURE(seed());
  for (bool const replicated : {false, true}) {
    CAPTURE(replicated);
    scene s{{.members = 3,
             .bytes = 3 << 20,
             .volume = {.replicated = replicated, .timeout = milliseconds{120'000}}}};
    std::uint64_t const size = s.v->bytes();
    REQUIRE(size == (replicated ? 3u << 20 : 9u << 20));
    constexpr unsigned threads = 4;
    std::uint64_t const share = size / threads;
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        auto const what = random_bytes(seed() + t, share - 3);
        if (s.write(what, t * share + 1) != std::int64_t(what.size())) ++wrong;
        for (unsigned round = 0; round < 3; ++round)
          if (s.read(t * share + 1, what.size()) != what) ++wrong;
      });
    for (auto& t : all) t.join();
    CHECK(wrong == 0);
    CHECK(s.v->flush() == 0);
    for (auto const& each : s.v->drives()) {
      CHECK(each->counters().flushes == 1);
      CHECK(each->counters().bytes_read > 0);
      auto const queues = each->counts();
      CHECK(queues.strays == 0);
      CHECK(queues.doorbells > each->counters().commands);
      CHECK(queues.looks > queues.empty_looks);
    }
    for (unsigned i = 1; replicated && i < 3; ++i)
      CHECK(std::ranges::equal(s.disks[i]->bytes(), s.disks[0]->bytes()));
  }
}

TEST_CASE("volume: bytes before an error count, in reads and in writes") {
  scene s{{}};
  auto const what = random_bytes(1, 1 << 20);
  REQUIRE(s.write(what, 0) == 1 << 20);
  s.faults[0]->bad_lba = 700;  // in the third piece of 128 KiB
  bytes seen(1 << 20);
  CHECK(s.v->read(seen, 0) == 256 << 10);
  CHECK(std::equal(seen.begin(), seen.begin() + (256 << 10), what.begin()));
  CHECK(s.v->read(std::span{seen}.first(100), 700 * 512 + 5) == -EIO);
  CHECK(s.v->read(std::span{seen}.first(600), 699 * 512) == -EIO);
  CHECK(s.write(bytes(1 << 20), 3) == (256 << 10) - 3);
  CHECK(s.write(bytes(10), 700 * 512 + 1) == -EIO);
  s.faults[0]->bad_lba = ~0ull;
  CHECK(s.read((256 << 10) + 3, 100) ==
        bytes(what.begin() + (256 << 10) + 3, what.begin() + (256 << 10) + 103));
}

TEST_CASE("volume: ends, empty ranges, and parts that are empty") {
  scene s{{.bytes = 10 * 512}};
  bytes some(100);
  CHECK(s.v->read(some, 10 * 512) == 0);
  CHECK(s.v->read({}, 0) == 0);
  CHECK(s.v->read(some, 10 * 512 - 7) == 7);
  CHECK(s.v->write({}, 0) == 0);
  CHECK(s.write(some, 10 * 512) == -ENOSPC);
  CHECK(s.write(some, 10 * 512 - 7) == 7);
  auto a = random_bytes(1, 700), b = random_bytes(2, 3);
  ::iovec const parts[] = {{nullptr, 0}, {a.data(), 700}, {nullptr, 0}, {b.data(), 3}};
  CHECK(s.v->write(parts, 99) == 703);
  a.insert(a.end(), b.begin(), b.end());
  CHECK(s.read(99, 703) == a);
}

TEST_CASE("volume: members that do not fit each other are refused") {
  CHECK_THROWS_AS((scene{{.members = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((scene{{.volume = {.stripe = 256}}}), std::invalid_argument);
  CHECK_THROWS_AS((scene{{.members = 2, .bytes = 4096}}), std::invalid_argument);
  scene one{{}}, two{{.lba = 4096}};
  auto const drive_of = [](std::uint32_t lba) {
    nvme_controller::controller_options const o{
        .namespaces = {std::make_shared<nvme_controller::memory_namespace>(1 << 20, lba)}};
    return std::make_unique<drive>(std::make_unique<software_link>(o), std::to_string(lba),
                                   drive_options{});
  };
  std::vector<std::unique_ptr<drive>> drives;
  drives.push_back(drive_of(512));
  drives.push_back(drive_of(4096));
  try {
    volume const v{std::move(drives), {}};
    FAIL("blocks of two sizes");
  } catch (std::invalid_argument const& e) {
    CHECK(std::string(e.what()).find("member 4096 has blocks of 4096") != std::string::npos);
  }
}

TEST_CASE("drive: namespaces that a controller cannot have are refused by their numbers") {
  using namespace nvme_controller;
  for (std::uint32_t const nsid : {0u, most_namespaces + 1, every_namespace}) {
    CAPTURE(nsid);
    controller_options const o{.namespaces = {std::make_shared<memory_namespace>(1 << 20, 512)}};
    std::string const wanted =
        "nvme: namespace " + std::to_string(nsid) + ", the drive has 1 to 256";
    CHECK_THROWS_WITH_AS(drive(std::make_unique<software_link>(o), "d", {.nsid = nsid}),
                         wanted.c_str(), controller_error);
  }
}

TEST_CASE("drive: host and kernels share the queue pairs that a controller grants") {
  using namespace nvme_controller;
  struct shape {
    std::uint32_t queue_pairs, channels;
    std::size_t kernels;  // have
  };
  // A channel has a CID, 15 of them a pair.
  for (auto const& [pairs, channels, kernels] :
       {shape{4, 30, 4}, shape{4, 150, 10}, shape{126, 15, 64}, shape{126, 1500, 100},
        shape{1, 15 * 127, 127}, shape{1, 15 * 128, 0}}) {
    CAPTURE(pairs);
    CAPTURE(channels);
    controller_options const o{.namespaces = {std::make_shared<memory_namespace>(1 << 20, 512)}};
    drive const d{std::make_unique<software_link>(o),
                  "d",
                  {.queue_pairs = pairs,
                   .depth = 16,
                   .channels = channels,
                   .device_queue_pairs = pairs,
                   .device_memory = anonymous_memory()}};
    CHECK(d.device_pairs().size() == kernels);
    CHECK(d.why_no_device_pairs().empty());
  }
}

TEST_CASE("drive: a failure among the pairs of kernels leaves those of the host") {
  using namespace nvme_controller;
  for (bool const fails : {false, true}) {
    CAPTURE(fails);
    auto const faults = std::make_shared<volume_faults>();
    auto link = std::make_unique<software_link>(controller_options{
        .namespaces = {std::make_shared<memory_namespace>(1 << 20, 512)}, .faults = faults});
    unsigned calls = 0;
    auto const memory = [&, registers = link->registers()](std::uint64_t bytes) {
      if (++calls < 4) return anonymous_memory()(bytes);
      faults->fail = fails;
      wait_until(
          [&] { return !fails || (registers.load(nvme::reg::csts) & nvme::reg::csts_fatal) != 0; },
          "a controller that fails");
      faults->fail = false;
      throw std::runtime_error{"no more memory of that kind"};
    };
    std::vector<std::unique_ptr<drive>> drives;
    drives.push_back(std::make_unique<drive>(std::move(link), "d",
                                             drive_options{.queue_pairs = 2,
                                                           .depth = 16,
                                                           .channels = 30,
                                                           .device_queue_pairs = 2,
                                                           .device_memory = memory}));
    CHECK(calls == 4);
    CHECK(drives[0]->device_pairs().empty());
    CHECK(drives[0]->why_no_device_pairs() == "no more memory of that kind");
    volume v{std::move(drives), {.timeout = milliseconds{120'000}}};
    bytes seen(1 << 20);
    CHECK(v.read(seen, 0) == 1 << 20);
    CHECK(v.drives()[0]->counters().resets == 0);
  }
}

TEST_CASE("volume: a controller that holds everything gives -ETIMEDOUT to all, and is reset then") {
  scene s{{.volume = {.timeout = milliseconds{50}}}};
  s.faults[0]->hold = true;
  std::vector<std::thread> all;
  std::atomic<unsigned> late{0};
  // More commands than slots, and writers that wait for each other's blocks.
  for (unsigned t = 0; t < 12; ++t)
    all.emplace_back([&, t] {
      bytes some(t % 2 == 0 ? 1 << 20 : 100);
      if ((t % 2 == 0 ? s.v->read(some, 0) : s.write(some, 5)) == -ETIMEDOUT) ++late;
    });
  for (auto& t : all) t.join();
  CHECK(late == 12);
  s.faults[0]->hold = false;
  auto const what = random_bytes(3, 5000);
  wait_until([&] { return s.write(what, 77) == 5000; }, "a write after the reset");
  wait_until([&] { return s.read(77, 5000) == what; }, "a read after the reset");
  CHECK(s.v->drives()[0]->counters().resets >= 1);
  CHECK(s.v->drives()[0]->counters().timeouts >= 1);
}

TEST_CASE("volume: threads write bytes that lie between each other's, and all are kept") {
  constexpr unsigned threads = 6;
  for (std::uint32_t const lba : {512u, 4096u}) {
    CAPTURE(lba);
    scene s{{.members = 2, .bytes = 64 << 10, .lba = lba, .volume = {.stripe = 4096}}};
    constexpr std::uint64_t size = 40'000;
    unsigned const rounds = scaled(200, 40);
    std::vector<std::thread> all;
    std::atomic<unsigned> wrong{0};
    // Thread t owns every sixth run of 37 bytes.
    for (unsigned t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        std::mt19937_64 random{seed() + t};
        bytes const mine(37, std::byte(t + 1));
        for (unsigned round = 0; round < rounds; ++round) {
          std::uint64_t const run = (random() % (size / (threads * 37))) * threads + t;
          if (s.write(mine, run * 37) != 37 || s.read(run * 37, 37) != mine) ++wrong;
        }
      });
    for (auto& t : all) t.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("volume: a read goes on at another replica, and the one that failed is out of turn") {
  constexpr std::uint64_t size = 1 << 20;
  scene s{{.members = 3,
           .volume = {.replicated = true,
                      .timeout = milliseconds{120'000},
                      .out_of_turn = std::chrono::hours{1}}}};
  auto const what = random_bytes(4, size);
  REQUIRE(s.write(what, 0) == std::int64_t(size));
  s.faults[1]->bad_lba = 700;
  std::uint64_t failures = 0;
  auto const reads_of = [&](unsigned member) {
    return s.v->drives()[member]->counters().bytes_read.load();
  };
  // Until its turn comes, and it fails.
  for (; failures == 0; failures = s.v->other_replicas())
    CHECK(s.read(3, size - 5).size() == size - 5);
  CHECK(failures == 1);
  std::uint64_t const by_failed = reads_of(1), by_good = reads_of(0) + reads_of(2);
  for (unsigned i = 0; i < 10; ++i)
    CHECK(s.read(3, size - 5) == bytes(what.begin() + 3, what.end() - 2));
  CHECK(s.v->other_replicas() == 1);
  CHECK(reads_of(1) == by_failed);
  CHECK(reads_of(0) + reads_of(2) == by_good + 10 * size);
  // Another one fails: the third has all bytes.
  s.faults[0]->bad_lba = 1500;
  for (unsigned i = 0; i < 4; ++i)
    CHECK(s.read(3, size - 5) == bytes(what.begin() + 3, what.end() - 2));
  CHECK(s.v->other_replicas() == 2);
  // If that fails, too, the others have the bytes, though they are out of turn.
  s.faults[2]->bad_lba = 1900;
  CHECK(s.read(0, size) == what);
  for (auto const& each : s.faults) each->bad_lba = 1900;
  CHECK(s.read(1900 * 512 + 1, 100).empty());
  CHECK(s.read(1500 * 512, 600 * 512).size() == 128 << 10);  // its first command
  for (auto const& each : s.faults) each->bad_lba = ~0ull;
  CHECK(s.read(0, size) == what);
}

TEST_CASE("volume: replicas whose controllers fail or hold everything, and come back") {
  CAPTURE(seed());
  constexpr std::uint64_t size = 1 << 20;
  scene s{{.members = 2,
           .volume = {.replicated = true,
                      .timeout = milliseconds{scaled(4000, 20'000)},
                      .out_of_turn = milliseconds{20}}}};
  auto const what = random_bytes(5, size);
  REQUIRE(s.write(what, 0) == std::int64_t(size));
  std::mt19937_64 random{seed()};
  auto const read_is_right = [&] {
    std::uint64_t const at = random() % size, count = 1 + random() % (size - at);
    auto const from = what.begin() + std::ptrdiff_t(at);
    return s.read(at, count) == bytes(from, from + std::ptrdiff_t(count));
  };
  for (unsigned round = 0; round < 6; ++round) {
    auto& faults = *s.faults[round % 2];
    faults.fail = true;
    for (unsigned i = 0; i < 20; ++i) CHECK(read_is_right());
    faults.fail = false;
    for (unsigned i = 0; i < 20; ++i) CHECK(read_is_right());
  }
  // A replica that says nothing gets its share of a call's time, and then the other one.
  s.faults[0]->hold = true;
  auto const others = s.v->other_replicas();
  for (unsigned i = 0; i < 20; ++i) CHECK(read_is_right());
  CHECK(s.v->other_replicas() > others);
  s.faults[0]->hold = false;
  for (unsigned i = 0; i < 20; ++i) CHECK(read_is_right());
}

TEST_CASE("volume: a replica that is slow in its share of the time is not reset, a silent one is") {
  constexpr std::uint64_t size = 64 << 10;
  scene s{{.members = 2,
           .bytes = size,
           .volume = {.replicated = true, .timeout = milliseconds{scaled(4000, 20'000)}}}};
  auto const what = random_bytes(9, size);
  REQUIRE(s.write(what, 0) == std::int64_t(size));
  auto const& drive = *s.v->drives()[0];
  s.faults[0]->hold = true;
  while (drive.counters().timeouts == 0) CHECK(s.read(0, size) == what);
  s.faults[0]->hold = false;
  CHECK(s.write(what, 0) == std::int64_t(size));  // by both
  CHECK(drive.counters().resets == 0);
  CHECK(drive.counts().strays == 0);
  // No wait is longer than its share, so it is a call that finds the old command.
  scene silent{{.members = 2,
                .bytes = size,
                .volume = {.replicated = true, .timeout = milliseconds{scaled(100, 1000)}}}};
  REQUIRE(silent.write(what, 0) == std::int64_t(size));
  silent.faults[0]->hold = true;
  wait_until(
      [&] {
        static_cast<void>(silent.read(0, size));
        return silent.v->drives()[0]->counters().resets != 0;
      },
      "a reset of a replica that answers nothing");
  silent.faults[0]->hold = false;
  wait_until([&] { return silent.write(what, 0) == std::int64_t(size); }, "a write to both");
}

TEST_CASE("volume: a replica that owes an answer ends in order") {
  scene s{{.members = 2, .volume = {.replicated = true, .timeout = milliseconds{200}}}};
  s.faults[0]->hold = true;
  while (s.v->drives()[0]->counters().timeouts == 0) static_cast<void>(s.read(0, 4096));
}

TEST_CASE("io queue: who gives up a command whose completion has come gets it") {
  using namespace nvme_controller;
  software_link link{{.namespaces = {std::make_shared<memory_namespace>(1 << 20, 512)}}};
  control_plane plane{link};
  plane.bring_up();
  io_queue queue{plane, plane.create_queue_pair(1, 16), {4, 4096, 1}};
  auto const first = queue.try_slot(), second = queue.try_slot();
  REQUIRE(first);
  REQUIRE(second);
  auto const sent = io_clock::now();
  queue.send_transfer(*first, nvme::opcode::read, {0, 8}, 4096);
  queue.send_transfer(*second, nvme::opcode::read, {8, 8}, 4096);
  // Completions of one queue come in order.
  wait_until([&] { return queue.poll(*second).has_value(); }, "the second completion");
  CHECK(queue.give_up(*first, sent).has_value());
  CHECK(!queue.oldest_given_up());
  queue.free_slot(*first);
  queue.free_slot(*second);
  for (unsigned i = 0; i < 4; ++i) CHECK(queue.try_slot());
  CHECK(!queue.try_slot());
}

TEST_CASE("volume: a long write keeps other writers from the blocks of its turn only") {
  scene s{{.threads = 2,
           .bytes = 2 * nvme_host::most_locked,
           .drive = {.queue_pairs = 2, .depth = 16}}};
  auto& disk = *s.calls[0];
  disk.hangs_from = nvme_host::most_locked;
  disk.hangs = true;
  bytes const long_one(nvme_host::most_locked + 8192, std::byte{1}), short_one(512, std::byte{2});
  std::thread writer{[&] { CHECK(s.write(long_one, 0) == std::int64_t(long_one.size())); }};
  wait_until([&] { return disk.hanging > 0; }, "the second turn");
  // One command, for the queue that has none under way.
  CHECK(s.write(short_one, 1024) == 512);
  disk.release();
  writer.join();
  bytes wanted(2048, std::byte{1});
  std::fill_n(wanted.begin() + 1024, short_one.size(), std::byte{2});
  CHECK(s.read(0, wanted.size()) == wanted);
}

TEST_CASE("volume: one thread waits for the reset of a replica, the others read meanwhile") {
  constexpr std::uint64_t size = 256 << 10;
  scene s{
      {.members = 2,
       .bytes = size,
       .volume = {
           .replicated = true, .timeout = milliseconds{120'000}, .out_of_turn = milliseconds{0}}}};
  auto const what = random_bytes(6, size);
  REQUIRE(s.write(what, 0) == std::int64_t(size));
  std::atomic<bool> goes_on{false}, is_late{false};
  auto const wait = [&] {
    try {
      wait_until([&] { return goes_on.load(); }, "the end of the test");
    } catch (std::runtime_error const&) {
      is_late = true;
    }
  };
  s.v->drives()[1]->on_reset(wait, [] {});
  s.faults[1]->fail = true;
  std::thread unlucky([&] {
    while (s.v->drives()[1]->counters().resets == 0) CHECK(s.read(0, size) == what);
  });
  wait_until([&] { return s.v->drives()[1]->is_resetting(); }, "a reset");
  for (unsigned i = 0; i < 50; ++i) CHECK(s.read(i, size - i).size() == size - i);
  CHECK(!is_late);
  s.faults[1]->fail = false;
  goes_on = true;
  unlucky.join();
  CHECK(s.read(0, size) == what);
}

TEST_CASE("volume: resets while threads read and write: each call is right or an error") {
  CAPTURE(seed());
  scene s{{.members = 2,
           .drive = {.queue_pairs = 2, .depth = 16},
           .volume = {.stripe = 4096, .timeout = milliseconds{scaled(30, 500)}}}};
  constexpr unsigned threads = 4;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> right{0}, wrong{0}, failed{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      std::uint64_t const at = t * (100 << 10) + 11;
      for (std::uint64_t round = 0; !stop; ++round) {
        auto const what = random_bytes(seed() + round * threads + t, 9000);
        bool const put = s.write(what, at) == 9000;
        auto const seen = put ? s.read(at, 9000) : bytes{};
        ++(seen == what ? right : seen.size() == 9000 ? wrong : failed);
      }
    });
  auto const resets = [&] {
    return s.v->drives()[0]->counters().resets + s.v->drives()[1]->counters().resets;
  };
  std::uint64_t const enough = scaled(40, 10);
  s.faults[0]->lose_one_in = 50;
  wait_until([&] { return resets() >= enough; }, "resets because of lost completions");
  s.faults[0]->lose_one_in = 0;
  for (unsigned round = 0; round < 5; ++round) {
    auto const before = resets();
    s.faults[1]->fail = true;
    wait_until([&] { return resets() > before; }, "a reset of a controller that fails");
    s.faults[1]->fail = false;
    auto const so_far = right.load();
    wait_until([&] { return right > so_far + 10; }, "right bytes after it");
  }
  stop = true;
  for (auto& t : all) t.join();
  CHECK(wrong == 0);
  CHECK(failed > 0);
  CHECK(right > 0);
}
