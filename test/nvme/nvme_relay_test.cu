// Doorbells that a thread of the host passes on: none is missed, none is written to a register that
// is gone, and kernels read block files by them.
#include <gpufs/gpufs.hpp>

#include <test/nvme/block_members.hpp>
#include <test/nvme/read_faults.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <nvme-host/doorbell_relay.hpp>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include <sys/mman.h>

using namespace gpufs;
using namespace gpufs::test;
using nvme_host::doorbell_relay;

namespace {

constexpr std::uint64_t page = 4096;

void store_value(doorbell_relay const& relay, std::size_t doorbell, std::uint32_t value) {
  std::atomic_ref{*relay.word(doorbell)}.store(value, std::memory_order_release);
}
std::uint32_t load(std::uint32_t& reg) {
  return std::atomic_ref{reg}.load(std::memory_order_acquire);
}

/// Registers that can be taken away, as a BAR is.
class mapped_registers {
 public:
  mapped_registers()
      : base_{static_cast<std::uint32_t*>(
            ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))} {}
  ~mapped_registers() { ::munmap(base_, page); }
  mapped_registers(mapped_registers const&) = delete;
  mapped_registers& operator=(mapped_registers const&) = delete;
  [[nodiscard]] std::uint32_t* at(std::size_t i) const { return base_ + i; }
  /// Every access ends the process from now on.
  void take_away() const { REQUIRE(::mprotect(base_, page, PROT_NONE) == 0); }

 private:
  std::uint32_t* base_;
};

/// Random reads of whole pages and parts of them.
void read_at_random(filesystem& fs, int fd, std::string const& path, std::uint64_t size,
                    unsigned count, caller_kind who) {
  std::mt19937_64 random(seed());
  read_batch batch;
  for (unsigned i = 0; i < count; ++i)
    batch.add(fd, path, std::int64_t(random() % size), 1 + random() % (2 * page),
              unsigned(random() % 64));
  batch.run(fs.ref(), 4, 64, who);
  CHECK(batch.problems() == "");
}

}  // namespace

TEST_CASE("relay: registers follow their words, never back, and have the last values") {
  constexpr std::size_t doorbells = 40, ringers = 4;
  constexpr std::uint32_t last = 20'000;
  std::vector<std::uint32_t> registers(doorbells, 0);
  std::vector<nvme_host::relayed_doorbell> all;
  for (std::size_t i = 0; i < doorbells; ++i) all.push_back({&registers[i], i % 3});
  doorbell_relay relay(all, nvme_host::anonymous_memory());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < ringers; ++t)
    threads.emplace_back([&, t] {
      for (std::uint32_t value = 1; value <= last; ++value)
        for (std::size_t i = t; i < doorbells; i += ringers) store_value(relay, i, value);
    });
  std::vector<std::uint32_t> seen(doorbells, 0);
  bool went_back = false;
  wait_until(
      [&] {
        bool complete = true;
        for (std::size_t i = 0; i < doorbells; ++i) {
          std::uint32_t const value = load(registers[i]);
          went_back = went_back || value < seen[i];
          seen[i] = value;
          complete = complete && value == last;
        }
        return complete;
      },
      "the last values");
  for (auto& each : threads) each.join();
  CHECK(!went_back);
  CHECK(relay.relayed() >= doorbells);
  CHECK(relay.relayed() <= std::uint64_t{doorbells} * last);
}

TEST_CASE("relay: registers may be taken away after their end, while kernels ring all doorbells") {
  for (unsigned round = 0; round < scaled(50, 10); ++round) {
    mapped_registers const first, second;
    std::vector<nvme_host::relayed_doorbell> all;
    for (std::size_t i = 0; i < 8; ++i) {
      all.push_back({first.at(i), 0});
      all.push_back({second.at(i), 1});
    }
    doorbell_relay relay(all, nvme_host::anonymous_memory());
    std::atomic<bool> stops{false};
    std::thread ringer([&] {
      for (std::uint32_t value = 1; !stops; ++value)
        for (std::size_t i = 0; i < all.size(); ++i) store_value(relay, i, value);
    });
    wait_until([&] { return load(*first.at(7)) != 0; }, "the first values");
    relay.end(0);
    first.take_away();
    std::uint32_t const now = load(*second.at(7));
    wait_until([&] { return load(*second.at(7)) - now > 20; }, "values of the other member");
    relay.stop();
    second.take_away();
    std::uint64_t const relayed = relay.relayed();
    stops = true;
    ringer.join();
    store_value(relay, 0, ~0u);
    CHECK(relay.relayed() == relayed);
    relay.stop();
  }
}

TEST_CASE("relay: kernels read all layouts, and the host sends no command for them") {
  for (auto const& shape : member_shapes) {
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      CAPTURE(shape.members);
      scratch_folder folder;
      auto const files = make_members(folder, shape, 48 * page);
      filesystem fs(small_config(page, 24));
      auto o = files.options;
      o.relay_doorbells = true;
      fs.attach("disk", o);
      int const fd = fs.open("nvme:disk", O_RDONLY);
      REQUIRE(fd > 0);
      auto const before = fs.attachment_stats("disk");
      CHECK(before.why_no_device_queues == "");
      CHECK(before.doorbells_relayed == 0);
      read_at_random(fs, fd, files.whole, files.size, scaled(200, 40), who);
      auto const after = fs.attachment_stats("disk");
      CHECK(after.commands == before.commands);
      CHECK(after.device_commands > 0);
      CHECK(after.doorbells_relayed > 0);
      CHECK(fs.close(fd) == 0);
      CHECK(fs.detach("disk") == 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE("relay: short queues wrap often, and completions come in any order") {
  auto c = small_config(page, 8);
  c.nvme_queue_depth = 16;
  fault_scene s(c, true);
  REQUIRE(s.fs.attachment_stats("disk").why_no_device_queues == "");
  s.faults->shuffles = true;
  for (auto const who : {caller_kind::block, caller_kind::tile})
    read_at_random(s.fs, s.fd, s.path, s.size, scaled(4000, 300), who);
  auto const seen = s.fs.attachment_stats("disk");
  CHECK(seen.commands == s.host_commands);
  // Each pair went round several times.
  if (!thread_sanitizer && !counts_branches)
    CHECK(seen.device_commands > 3 * 16 * seen.device_queue_pairs);
}

TEST_CASE(
    "relay: doorbells end with a reset and with a detachment, the next attachment has its own") {
  fault_scene s(small_config(page, 8), true);
  s.read_is_right(0);
  s.faults->fail = true;
  std::vector<std::byte> room(page);
  wait_until([&] { return s.fs.read(s.fd, room.data(), page, 0) == -EIO; }, "a failed read");
  s.faults->fail = false;
  wait_until([&] { return s.fs.read(s.fd, room.data(), page, 0) == std::int64_t(page); },
             "a read after the reset");
  auto const reset = s.fs.attachment_stats("disk");
  for (std::uint64_t number = 0; number < 30; ++number) s.read_is_right(number);
  auto const later = s.fs.attachment_stats("disk");
  CHECK(later.doorbells_relayed == reset.doorbells_relayed);
  CHECK(later.commands > reset.commands + 20);  // some pages are cached
  for (unsigned round = 0; round < 3; ++round) {
    CHECK(s.fs.close(s.fd) == 0);
    CHECK(s.fs.detach("disk") == 0);
    s.attach();
    for (std::uint64_t number = 0; number < 30; ++number) s.read_is_right(number);
    auto const seen = s.fs.attachment_stats("disk");
    CHECK(seen.doorbells_relayed > 0);
    CHECK(seen.commands == s.host_commands);
  }
}

TEST_CASE("relay: chunks whose completions are owed when the file is detached") {
  auto c = small_config(page, 64);
  c.prefetch_size = 4 * page;
  for (std::uint64_t end = 16; end < 28; ++end) {
    fault_scene s(c, true);
    s.faults->lost_from = end * page / 512;
    op_batch batch;
    for (std::uint64_t number = 0; number < end; ++number)
      batch.read(0, s.fd, std::int64_t(number * page), page);
    batch.run(s.fs.ref(), 1, 64);
    for (std::size_t op = 0; op < batch.size(); ++op) CHECK(batch.result(op) == std::int64_t(page));
    CHECK(s.fs.close(s.fd) == 0);
    CHECK(s.fs.detach("disk") == 0);
    CHECK(inspect(s.fs.ref()).problems == "");
    s.attach();
    for (std::uint64_t number = 0; number < 64; ++number) s.read_is_right(number);
  }
}
