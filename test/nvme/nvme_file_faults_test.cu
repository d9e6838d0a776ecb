// Block files on controllers that make faults: each error reaches the kernel once, with its errno,
// and the next call is right.
#include <gpufs/gpufs.hpp>
#include <gpufs/nvme/status.hpp>
#include <gpufs/owner/nvme_members.hpp>

#include <test/nvme/statuses.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using bytes = std::vector<std::byte>;
using nvme_controller::fault;
namespace status = nvme::status;

constexpr std::uint64_t page = 4096, pages = 64;

/// Faults of the next commands with an opcode.
struct planned_faults : nvme_controller::fault_plan {
  std::mutex mutex;
  nvme::opcode code = nvme::opcode::read;  // the mutex guards this
  fault what{};                            // and this
  unsigned left = 0;                       // and this
  std::atomic<bool> fail{false};
  std::atomic<bool> leave{false};
  std::atomic<bool> stay_ready{false};

  void plan(nvme::opcode of, fault each, unsigned times = 1) {
    std::lock_guard const lock{mutex};
    code = of;
    what = each;
    left = times;
  }
  fault on_command(std::uint16_t, nvme::sqe const& entry) override {
    std::lock_guard const lock{mutex};
    if (left == 0 || nvme::opcode_of(entry) != std::uint32_t(code)) return {};
    --left;
    return what;
  }
  bool fails() override { return fail; }
  bool gone() override { return leave; }
  bool keeps_ready() override { return stay_ready; }
};

/// A block file in memory with known bytes, open in a filesystem.
struct scene {
  std::vector<std::shared_ptr<planned_faults>> faults;
  filesystem fs;
  bytes contents = some_bytes(7, 0, pages* page);
  int fd = -1;

  explicit scene(config const& c = small_config(page, 2 * pages), unsigned members = 1,
                 nvme::layout how = nvme::layout::striped)
      : fs(c) {
    nvme::software_options o;
    o.memory = how == nvme::layout::striped ? contents.size() / members : contents.size();
    o.memory_members = members;
    o.how = how;
    o.stripe = page;
    o.threads = 1;
    std::vector<std::shared_ptr<nvme_controller::fault_plan>> plans;
    for (unsigned i = 0; i < members; ++i) {
      faults.push_back(std::make_shared<planned_faults>());
      plans.push_back(faults.back());
    }
    owner::inject_controller_faults(plans);
    fs.attach("disk", o);
    fd = fs.open("nvme:disk", O_RDWR);
    REQUIRE(fd > 0);
    REQUIRE(fs.write(fd, contents.data(), contents.size(), 0) == std::int64_t(contents.size()));
  }
  ~scene() {
    CHECK(fs.close(fd) == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }

  std::int64_t read(std::uint64_t number, bool* right = nullptr) {
    op_batch batch;
    auto const op = batch.read(0, fd, std::int64_t(number * page), page);
    batch.run(fs.ref(), 1, 64);
    auto const from = contents.begin() + std::ptrdiff_t(number * page);
    if (right != nullptr) *right = batch.bytes(op) == bytes(from, from + page);
    return batch.result(op);
  }
  void read_is_right(std::uint64_t number) {
    bool right = false;
    CHECK(read(number, &right) == std::int64_t(page));
    CHECK(right);
  }
  /// Writes other bytes, and returns what gfsync says.
  std::int64_t write(std::uint64_t number, std::uint64_t count = page) {
    auto const what = some_bytes(number + 1000, 0, count);
    std::copy(what.begin(), what.end(), contents.begin() + std::ptrdiff_t(number * page));
    op_batch batch;
    auto const put = batch.write(0, fd, std::int64_t(number * page), what);
    auto const end = batch.sync(0, fd);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.result(put) == std::int64_t(count));
    return batch.result(end);
  }
  std::int64_t sync() {
    op_batch batch;
    auto const op = batch.sync(0, fd);
    batch.run(fs.ref(), 1, 64);
    return batch.result(op);
  }
  /// Waits until the controller has noticed that it shall fail. The host's reads use no cache.
  void wait_for_failure(std::uint64_t number) {
    bytes seen(page);
    wait_until([&] { return fs.read(fd, seen.data(), page, std::int64_t(number * page)) == -EIO; },
               "a failure of the controller");
  }
  /// Whether the drives have the contents.
  bool stored() {
    bytes seen(contents.size());
    return fs.read(fd, seen.data(), seen.size(), 0) == std::int64_t(seen.size()) &&
           seen == contents;
  }
};

config impatient_config() {
  auto c = small_config(page, 2 * pages);
  c.rpc_timeout_ms = 5000;
  return c;
}

bool timed_out_or_failed(std::int64_t result) { return result == -ETIMEDOUT || result == -EIO; }

}  // namespace

TEST_CASE("block file faults: each status of a read is one errno in the kernel") {
  scene s;
  std::uint64_t number = 0;
  for (std::uint16_t const word : final_statuses) {
    CAPTURE(word);
    auto const code = std::uint16_t(word & ~status::do_not_retry);
    s.faults[0]->plan(nvme::opcode::read, {fault::kind::status, word});
    CHECK(s.read(number) == nvme::error_of(code, nvme::direction::read));
    s.read_is_right(number);
    CHECK(s.fs.attachment_stats("disk").errors[code] == 1);
    ++number;
  }
  auto const seen = s.fs.attachment_stats("disk");
  CHECK(seen.own_faults == 3);
  CHECK(seen.retries == 0);
  CHECK(seen.resets == 0);
}

TEST_CASE("block file faults: each status of a write is one errno of gfsync, and nothing is lost") {
  scene s;
  std::uint64_t number = 0;
  for (std::uint16_t const word : final_statuses) {
    CAPTURE(word);
    auto const code = std::uint16_t(word & ~status::do_not_retry);
    s.faults[0]->plan(nvme::opcode::write, {fault::kind::status, word});
    // As a result -ETIMEDOUT says that nothing was reported.
    int const error = nvme::error_of(code, nvme::direction::write);
    CHECK(s.write(number) == (error == -ETIMEDOUT ? -EIO : error));
    CHECK(s.sync() == 0);
    ++number;
  }
  CHECK(s.stored());
}

TEST_CASE("block file faults: the read of a block's other bytes fails a write of a part of it") {
  scene s;
  s.read_is_right(3);
  // The cache has the page by now, so the next read is of the block.
  s.faults[0]->plan(nvme::opcode::read, {fault::kind::status, status::unrecovered_read});
  CHECK(s.write(3, 100) == -EIO);
  CHECK(s.sync() == 0);
  CHECK(s.stored());
}

TEST_CASE("block file faults: what may pass is tried three times more") {
  scene s;
  s.faults[0]->plan(nvme::opcode::read, {fault::kind::status, status::namespace_not_ready}, 3);
  s.read_is_right(0);
  CHECK(s.fs.attachment_stats("disk").retries == 3);
  s.faults[0]->plan(nvme::opcode::read, {fault::kind::status, 0x303}, 4);
  CHECK(s.read(1) == -EIO);
  s.read_is_right(1);
  CHECK(s.fs.attachment_stats("disk").retries == 6);
}

TEST_CASE("block file faults: a failed flush is an error of gfsync, and stays one") {
  scene s;
  s.faults[0]->plan(nvme::opcode::flush, {fault::kind::status, status::write_fault});
  CHECK(s.write(5) == -EIO);
  CHECK(s.stored());
  CHECK(s.sync() == -EIO);  // bytes that may be lost are not durable later
}

TEST_CASE("block file faults: completions that come twice or to nobody are counted") {
  scene s;
  s.faults[0]->plan(nvme::opcode::read, {fault::kind::twice, 0}, 8);
  for (std::uint64_t number = 0; number < 8; ++number) s.read_is_right(number);
  s.faults[0]->plan(nvme::opcode::read, {fault::kind::foreign, 0}, 8);
  for (std::uint64_t number = 8; number < 16; ++number) s.read_is_right(number);
  for (std::uint64_t number = 16; number < 40; ++number) s.read_is_right(number);
  auto const seen = s.fs.attachment_stats("disk");
  CHECK(seen.strays > 0);
  CHECK(seen.strays <= 16);
  CHECK(seen.errors.empty());
}

TEST_CASE("block file faults: a lost completion is an error in time, then reset and right bytes") {
  scene s{impatient_config()};
  s.faults[0]->plan(nvme::opcode::read, {fault::kind::lose, 0});
  CHECK(timed_out_or_failed(s.read(9)));
  // A slow machine may miss the deadline again.
  wait_until([&] { return s.read(9) == std::int64_t(page); }, "a read after the reset");
  s.read_is_right(9);
  auto const seen = s.fs.attachment_stats("disk");
  CHECK(seen.timeouts >= 1);
  CHECK(seen.resets >= 1);
  s.faults[0]->plan(nvme::opcode::write, {fault::kind::lose, 0});
  static_cast<void>(s.write(10));
  wait_until([&] { return s.sync() == 0; }, "a write after the reset");
  CHECK(s.stored());
}

TEST_CASE("block file faults: a controller that fails ends waits, and works after its reset") {
  scene s;
  s.read_is_right(0);
  s.faults[0]->fail = true;
  s.wait_for_failure(0);
  CHECK(s.read(1) == -EIO);
  s.faults[0]->fail = false;
  wait_until([&] { return s.read(1) == std::int64_t(page); }, "a read after the reset");
  s.read_is_right(2);
  CHECK(s.fs.attachment_stats("disk").resets >= 1);
}

TEST_CASE("block file faults: a controller that does not stop is given up, its neighbour works") {
  scene s{small_config(page, 2 * pages), 2};
  s.read_is_right(0);
  s.faults[0]->stay_ready = true;
  s.faults[0]->fail = true;
  s.wait_for_failure(0);
  CHECK(s.read(2) == -EIO);  // page 2 is on member 0
  s.faults[0]->fail = false;
  s.faults[0]->stay_ready = false;
  CHECK(s.read(4) == -EIO);
  s.read_is_right(5);
  CHECK(s.write(6) == -EIO);
  CHECK(s.fs.discard(s.fd) == 0);
}

TEST_CASE("block file faults: a controller that leaves the bus gives -EIO from then on") {
  scene s;
  s.read_is_right(0);
  s.faults[0]->leave = true;
  s.wait_for_failure(0);
  CHECK(s.read(1) == -EIO);
  CHECK(s.read(1) == -EIO);
}

TEST_CASE("block file faults: a replica that fails fails the write, and the next sync repairs it") {
  scene s{small_config(page, 2 * pages), 2, nvme::layout::replicated};
  s.faults[1]->plan(nvme::opcode::write, {fault::kind::status, status::write_fault});
  CHECK(s.write(5) == -EIO);
  CHECK(s.sync() == 0);
  // Reads take turns, so both members answer.
  for (unsigned i = 0; i < 4; ++i) CHECK(s.stored());
  auto const seen = s.fs.attachment_stats("disk");
  CHECK(seen.bytes_written >= 2 * s.contents.size());
}
