// Replicas that fail: kernels read the bytes from another one, by their own commands or the
// daemon's.
#include <gpufs/gpufs.hpp>
#include <gpufs/nvme/status.hpp>

#include <test/nvme/block_members.hpp>
#include <test/nvme/read_faults.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

namespace status = nvme::status;
using nvme_controller::fault;

constexpr std::uint64_t page = 4096, size = 64 * page;

/// A file with a few replicas that kernels read, each with its faults.
struct replica_scene {
  scratch_folder folder;
  member_files files;
  std::vector<std::shared_ptr<read_faults>> faults;
  filesystem fs;
  std::uint64_t host_commands = 0;
  int fd = -1;

  explicit replica_scene(unsigned members, config const& c = small_config(page, 8))
      : files(make_members(folder, {members, true, page}, size)), fs(c) {
    std::vector<std::shared_ptr<nvme_controller::fault_plan>> plans;
    for (unsigned i = 0; i < members; ++i) {
      faults.push_back(std::make_shared<read_faults>());
      plans.push_back(faults.back());
    }
    owner::inject_controller_faults(plans);
    fs.attach("disk", files.options);
    fd = fs.open("nvme:disk", O_RDONLY);
    REQUIRE(fd > 0);
    host_commands = fs.attachment_stats("disk").commands;
  }
  ~replica_scene() {
    CHECK(fs.close(fd) == 0);
    CHECK(fs.detach("disk") == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }

  void read_at_random(unsigned count, caller_kind who) {
    std::mt19937_64 random(seed());
    read_batch batch;
    for (unsigned i = 0; i < count; ++i)
      batch.add(fd, files.whole, std::int64_t(random() % size), 1 + random() % (3 * page),
                unsigned(random() % 64));
    batch.run(fs.ref(), 4, 64, who);
    CHECK(batch.problems() == "");
  }
};

constexpr unsigned forever = ~0u;

}  // namespace

TEST_CASE("replicas: a status of one replica is no error of a kernel, by blocks and tiles") {
  for (std::uint16_t const word :
       {std::uint16_t(status::unrecovered_read | status::do_not_retry), status::namespace_not_ready,
        std::uint16_t(status::guard_check | status::do_not_retry)}) {
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      CAPTURE(word);
      replica_scene s(2);
      s.faults[1]->plan({fault::kind::status, word}, forever);
      s.read_at_random(scaled(300, 60), who);
      auto const seen = s.fs.attachment_stats("disk");
      CHECK(seen.device_errors > 0);
      CHECK(seen.commands == s.host_commands);
      s.faults[1]->plan({}, 0);
      s.read_at_random(scaled(100, 20), who);
    }
  }
}

TEST_CASE("replicas: warps that read a page each take turns, as blocks and as tiles") {
  for (unsigned const members : {2u, 4u}) {
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      auto c = small_config(page, 2 * size / page);
      c.staging_size = 1024 * page;  // so each warp begins to look at channels of its own
      replica_scene s(members, c);
      std::vector<std::uint64_t> before;
      for (auto const& each : s.faults) before.push_back(each->seen_commands());
      read_batch batch;
      constexpr unsigned callers = 16;
      for (unsigned i = 0; i < callers; ++i)
        batch.add(s.fd, s.files.whole, std::int64_t(2 * i * page), page);
      bool const blocks = who == caller_kind::block;
      batch.run(s.fs.ref(), blocks ? callers : callers / 2, blocks ? 32 : 64, who);
      CHECK(batch.problems() == "");
      CAPTURE(members);
      CAPTURE(int(who));
      for (unsigned i = 0; i < members; ++i)
        CHECK(s.faults[i]->seen_commands() - before[i] >= callers / members / 2);
    }
  }
}

TEST_CASE("replicas: readahead, elements and late reads ask another replica, too") {
  auto c = small_config(page, 32);
  c.prefetch_size = 4 * page;
  replica_scene s(3, c);
  s.faults[0]->plan({fault::kind::status, status::unrecovered_read}, forever);
  read_batch batch;
  for (std::uint64_t at = 0; at < size; at += 5000)
    batch.add(s.fd, s.files.whole, std::int64_t(at), 5000);
  batch.run(s.fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  CHECK(s.fs.attachment_stats("disk").commands == s.host_commands);
}

TEST_CASE("replicas: one that answers nothing is no error, by kernels and by the daemon") {
  auto c = small_config(page, 8);
  c.rpc_timeout_ms = scaled(4000, 20'000);
  replica_scene s(2, c);
  s.faults[1]->lost_from = 0;
  for (auto const who : {caller_kind::block, caller_kind::tile, caller_kind::block})
    s.read_at_random(40, who);
  CHECK(s.fs.stats().timeouts == 0);
  CHECK(s.fs.attachment_stats("disk").resets >= 1);
  s.faults[1]->lost_from = ~0ull;
}

TEST_CASE("replicas: what all of them fail is an error, and the next read is right") {
  replica_scene s(2);
  for (auto const& each : s.faults)
    each->plan({fault::kind::status, status::unrecovered_read | status::do_not_retry}, forever);
  auto const read = [&](std::uint64_t number) {
    op_batch batch;
    auto const op = batch.read(0, s.fd, std::int64_t(number * page), page);
    batch.run(s.fs.ref(), 1, 64);
    return batch.result(op);
  };
  for (std::uint64_t number = 0; number < 10; ++number) CHECK(read(number) == -EIO);
  for (auto const& each : s.faults) each->plan({}, 0);
  for (std::uint64_t number = 0; number < 10; ++number) CHECK(read(number) == std::int64_t(page));
  CHECK(s.fs.attachment_stats("disk").commands == s.host_commands);
}

TEST_CASE("replicas: a controller that fails or leaves costs kernels that wait no error") {
  for (bool const leaves : {false, true}) {
    CAPTURE(leaves);
    replica_scene s(2);
    s.faults[0]->plan({fault::kind::lose, 0}, forever);
    op_batch batch;
    constexpr unsigned callers = 4;
    for (unsigned i = 0; i < 40; ++i)
      batch.read(i % callers, s.fd, std::int64_t(i % 64 * page), page);
    batch.start(s.fs.ref(), callers, 64);
    wait_until([&] { return s.faults[0]->planned() != forever; }, "a lost completion");
    (leaves ? s.faults[0]->leave : s.faults[0]->fail) = true;
    batch.finish();
    for (std::size_t op = 0; op < batch.size(); ++op) {
      CHECK(batch.result(op) == std::int64_t(page));
      CHECK(batch.bytes(op) == pread_bytes(s.files.whole, op % 64 * page, page));
    }
    CHECK(s.fs.stats().timeouts == 0);
    // The daemon reads now, and passes the replica over.
    s.read_at_random(scaled(100, 20), caller_kind::tile);
    auto const seen = s.fs.attachment_stats("disk");
    CHECK(seen.commands > s.host_commands);
    CHECK(seen.resets >= 1);
  }
}
