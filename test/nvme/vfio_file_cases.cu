// A drive that vfio-pci holds as a block file: kernels read and write it. It runs in a process of
// its own, since a drive has one user.
#include <gpufs/gpufs.hpp>

#include <test/nvme/pattern.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include <fcntl.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

/// Nobody writes the file: kernels read it by commands of their own.
void read_by_kernels(filesystem& fs, std::int64_t at, std::vector<std::byte> const& expected,
                     bool relays) {
  int const fd = fs.open("nvme:disk", O_RDONLY);
  REQUIRE(fd > 0);
  auto const before = fs.attachment_stats("disk");
  CHECK(before.why_no_device_queues == "");
  op_batch batch;
  constexpr std::uint64_t count = 256 << 10;
  auto const read = batch.read(0, fd, 0, count);
  auto const got = batch.read(1, fd, at, expected.size());
  batch.run(fs.ref(), 2, 64);
  CHECK(batch.result(read) == std::int64_t(count));
  CHECK(is_pattern(batch.bytes(read).data(), 0, count / pattern_lba));
  CHECK(batch.bytes(got) == expected);
  auto const after = fs.attachment_stats("disk");
  CHECK(after.device_commands > before.device_commands);
  CHECK(after.commands == before.commands);
  CHECK((after.doorbells_relayed > before.doorbells_relayed) == relays);
  CHECK(fs.close(fd) == 0);
}

}  // namespace

TEST_CASE("vfio file: kernels read the drive's blocks, and what they write is there later") {
  bool relays = false;
  SUBCASE("kernels ring doorbells") { relays = false; }
  SUBCASE("doorbells are relayed") { relays = true; }
  char const* const device = std::getenv("GPUFS_NVME_DEVICE");
  REQUIRE(device != nullptr);
  constexpr std::uint64_t page = 4096, count = 256 << 10;
  // Parts of blocks at both ends, where other suites may write, too.
  constexpr std::int64_t written = first_written * pattern_lba + 100;
  auto const what = some_bytes(5, 0, 10'000);
  for (bool const writes : {true, false}) {
    auto c = small_config(page, 16);
    c.write_memory = 1 << 20;
    filesystem fs(c);
    nvme::vfio_options o;
    o.devices = {device};
    o.relay_doorbells = relays;
    fs.attach("disk", o);
    int const fd = fs.open("nvme:disk", O_RDWR);
    REQUIRE(fd > 0);
    op_batch batch;
    auto const read = batch.read(0, fd, 0, count);
    std::size_t put = 0, synced = 0;
    if (writes) {
      put = batch.write(1, fd, written, what);
      synced = batch.sync(1, fd);
    }
    auto const got = batch.read(1, fd, written, what.size());
    batch.run(fs.ref(), 2, 64);
    CHECK(batch.result(read) == std::int64_t(count));
    CHECK(is_pattern(batch.bytes(read).data(), 0, count / pattern_lba));
    if (writes) {
      CHECK(batch.result(put) == std::int64_t(what.size()));
      CHECK(batch.result(synced) == 0);
    }
    CHECK(batch.bytes(got) == what);
    CHECK(fs.close(fd) == 0);
    read_by_kernels(fs, written, what, relays);
    auto const s = fs.attachment_stats("disk");
    CHECK(s.errors.empty());
    CHECK(s.strays == 0);
    CHECK((s.flushes > 0) == writes);
    CHECK(fs.detach("disk") == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }
}
