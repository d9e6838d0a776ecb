// Models of drives: the time that a transfer takes, bursts, and the delay line. The clock is the
// test's. And members past the page cache of the operating system.
#include <gpufs/gpufs.hpp>

#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <nvme-controller/block_namespace.hpp>
#include <nvme-controller/drive_model.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fcntl.h>

using namespace gpufs;
using namespace gpufs::test;
using nvme_controller::file_namespace;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

namespace {

using bytes = std::vector<std::byte>;
using model = nvme_controller::drive_model;

constexpr nvme_controller::drive_rates rates{1e6, 0.5e6, 0.2e6, 0.1e6, microseconds{25}};
constexpr model::clock::time_point begin{std::chrono::hours{1}};

bytes some(std::uint64_t count, unsigned first) {
  bytes all(count);
  for (std::uint64_t i = 0; i < count; ++i) all[i] = std::byte(first + i * 7 + i / 251);
  return all;
}

/// Memory aligned to 4096 bytes.
struct aligned_bytes {
  std::unique_ptr<std::byte, decltype(&std::free)> memory;
  std::uint64_t count;

  explicit aligned_bytes(std::uint64_t n)
      : memory{static_cast<std::byte*>(std::aligned_alloc(4096, n)), &std::free}, count{n} {}
  [[nodiscard]] nvme_controller::segment part(std::uint64_t at, std::uint64_t n) const {
    return {memory.get() + at, n};
  }
};

}  // namespace

TEST_CASE("drive model: a transfer takes the time of its size") {
  model m{rates};
  CHECK(m.cost(false, 0) == nanoseconds{1000});
  CHECK(m.cost(false, 512) == nanoseconds{1000});
  CHECK(m.cost(false, 512 + 1792) == nanoseconds{1500});
  CHECK(m.cost(false, 4096) == nanoseconds{2000});
  CHECK(m.cost(false, 40960) == nanoseconds{20'000});
  CHECK(m.cost(true, 512) == nanoseconds{5000});
  CHECK(m.cost(true, 4096) == nanoseconds{10'000});
}

TEST_CASE("drive model: an idle drive answers after its latency, a busy one at its rate") {
  model m{rates};
  auto const saved = model::burst / nanoseconds{2000};  // commands of 4 KiB
  for (int i = 0; i < saved; ++i) CHECK(m.due(false, 4096, begin) == begin + microseconds{25});
  for (int i = 1; i <= 100; ++i)
    CHECK(m.due(false, 4096, begin) == begin + microseconds{25} + i * nanoseconds{2000});
  CHECK(m.due(true, 512, begin) == begin + microseconds{25 + 200 + 5});
  // Long after, all is as at the beginning.
  auto const later = begin + std::chrono::seconds{1};
  CHECK(m.due(false, 512, later) == later + microseconds{25});
}

TEST_CASE("drive model: block files with each drive have the right bytes, and say so") {
  for (auto const& drive : {nvme::optane, nvme::pm1735, nvme::samsung_980pro}) {
    CAPTURE(drive.latency_us);
    filesystem fs(small_config(4096, 64));
    nvme::software_options o;
    o.memory = 256 << 10;
    o.memory_members = 2;
    o.threads = 1;
    o.model = drive;
    fs.attach("disk", o);
    int const fd = fs.open("nvme:disk", O_RDWR);
    REQUIRE(fd > 0);
    auto const what = some(300'000, 3);
    CHECK(fs.write(fd, what.data(), what.size(), 100) == std::int64_t(what.size()));
    CHECK(fs.sync(fd) == 0);
    bytes seen(what.size());
    CHECK(fs.read(fd, seen.data(), seen.size(), 100) == std::int64_t(seen.size()));
    CHECK(seen == what);
    auto const s = fs.attachment_stats("disk");
    CHECK(s.modelled);
    CHECK(s.errors.empty());
    // No answer comes before the latency of the drive.
    CHECK(double(s.longest_wait_ns) >= drive.latency_us * 1000);
    CHECK(fs.close(fd) == 0);
  }
}

TEST_CASE("drive model: rates and latencies that no drive has are refused") {
  filesystem fs(small_config(4096, 64));
  nvme::software_options o;
  o.memory = 256 << 10;
  for (auto const& wrong :
       {nvme::drive_model{0, 1, 1, 1, 1}, nvme::drive_model{1, 1, 1, 2e9, 1},
        nvme::drive_model{1, 1, 1, 1, -1}, nvme::drive_model{1, 1, 1, 1, 1e7}}) {
    o.model = wrong;
    CHECK_THROWS_AS(fs.attach("disk", o), std::invalid_argument);
  }
  o.model.reset();
  o.direct = true;
  CHECK_THROWS_AS(fs.attach("disk", o), std::invalid_argument);
}

TEST_CASE("direct members: aligned transfers, others, and the end of the file are right") {
  scratch_folder folder;
  constexpr std::uint64_t size = 10 * 4096 + 512;
  auto const path = make_file(folder, "member", size);
  std::unique_ptr<file_namespace> disk;
  try {
    disk = std::make_unique<file_namespace>(path, 512, file_namespace::mode::read_write,
                                            file_namespace::page_cache::past);
  } catch (std::system_error const& e) {
    CHECK(std::string(e.what()).find("does not allow O_DIRECT") != std::string::npos);
    MESSAGE("skipped: " << e.what());
    return;
  }
  bytes expected = pread_bytes(path, 0, size);
  aligned_bytes const memory(16 * 4096);
  struct transfer {
    std::uint64_t offset, at, count;
  };
  unsigned number = 0;
  for (auto const& t : {transfer{0, 0, 8192}, transfer{4096, 4096, 4096}, transfer{512, 0, 4096},
                        transfer{8192, 512, 4096}, transfer{4096, 0, 512},
                        transfer{9 * 4096, 0, 4096}, transfer{10 * 4096, 0, 512}}) {
    CAPTURE(t.offset);
    auto const part = memory.part(t.at, t.count);
    auto const what = some(t.count, ++number);
    std::ranges::copy(what, part.memory);
    CHECK(disk->write(t.offset, {&part, 1}) == 0);
    std::ranges::copy(what, expected.begin() + std::ptrdiff_t(t.offset));
    for (auto const& again : {t, transfer{t.offset / 4096 * 4096, 0, 4096}}) {
      if (again.offset + again.count > size) continue;
      auto const to = memory.part(again.at, again.count);
      std::fill_n(to.memory, to.bytes, std::byte{0});
      CHECK(disk->read(again.offset, {&to, 1}) == 0);
      CHECK(std::equal(to.memory, to.memory + to.bytes,
                       expected.begin() + std::ptrdiff_t(again.offset)));
    }
  }
  CHECK(disk->flush() == 0);
  CHECK(pread_bytes(path, 0, size) == expected);
  disk.reset();

  filesystem fs(small_config(4096, 64));
  nvme::software_options o;
  o.members = {path};
  o.direct = true;
  fs.attach("disk", o);
  int const fd = fs.open("nvme:disk", O_RDONLY);
  REQUIRE(fd > 0);
  bytes seen(size);
  CHECK(fs.read(fd, seen.data(), seen.size(), 0) == std::int64_t(size));
  CHECK(seen == expected);
  CHECK(fs.close(fd) == 0);
}
