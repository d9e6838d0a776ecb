// Bulk I/O with device memory.
#include <gpufs/device.hpp>
#include <gpufs/owner/device_copier.hpp>

#include <host-daemon/bulk/bulk_io.hpp>
#include <host-daemon/serve/server.hpp>

#include <test/daemon/harness.hpp>
#include <test/daemon/paths.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace gpufs::daemon;
using gpufs::test::expected_byte;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::write_range;
using gpufs::test::wrong_bytes;

namespace {

constexpr std::uint64_t size = 1'000'003;

struct setup {
  setup() {
    write_range(folder / "a", 0, size);
    fd = server.files().open(folder / "a", O_RDWR);
    REQUIRE(fd > 0);
    device.fill_zero();
  }
  [[nodiscard]] bulk_memory memory(device_copier& by) const {
    return {by, reinterpret_cast<std::uintptr_t>(device.data()), device.bytes()};
  }
  scratch_folder folder;
  region_memory region{16, 16, 1 << 20, 8, 4};
  gpufs::daemon::server server{
      region.region, gpufs::test::with(gpufs::io_backend::automatic, gpufs::io_path::pull)};
  int fd = 0;
  gpufs::buffer<std::byte> device{2 * size};
};

// A copier that fails one of its copies.
class failing final : public device_copier {
 public:
  explicit failing(bool at_start) : at_start_(at_start) {}
  [[nodiscard]] unsigned parts() const noexcept override { return below_->parts(); }
  [[nodiscard]] std::span<std::byte> part(unsigned n) noexcept override { return below_->part(n); }
  bool start(direction which, unsigned n, std::uint64_t address,
             std::uint64_t bytes) noexcept override {
    bool const fails = ++started_ == 3;
    if (fails && at_start_) return false;
    failing_part_ = fails ? int(n) : failing_part_;
    return below_->start(which, n, address, bytes);
  }
  state look(unsigned n) noexcept override {
    auto const now = below_->look(n);
    if (now != state::copied || failing_part_ != int(n)) return now;
    failing_part_ = -1;
    return state::failed;
  }

 private:
  std::unique_ptr<device_copier> below_ = gpufs::owner::make_device_copier(2, 64 << 10);
  bool at_start_;
  unsigned started_ = 0;
  int failing_part_ = -1;
};

}  // namespace

TEST_CASE("bulk device: a file goes to device memory and back, in parts that copy side by side") {
  setup s;
  auto const copier = gpufs::owner::make_device_copier(3, 64 << 10);
  bulk_range ranges[] = {{.offset = 5, .length = 500'000, .position = 3},
                         {.offset = 900'000, .length = 200'000, .position = 600'000}};
  CHECK(s.server.bulk().read(s.fd, ranges, s.memory(*copier)) == 0);
  CHECK(ranges[0].result == 500'000);
  CHECK(ranges[1].result == 100'003);  // the file ends
  std::vector<std::byte> host(2 * size);
  s.device.copy_to_host(host.data(), host.size());
  CHECK(wrong_bytes(host.data() + 3, 5, 500'000) == 0);
  CHECK(wrong_bytes(host.data() + 600'000, 900'000, 100'003) == 0);
  CHECK(host[2] == std::byte{0});
  CHECK(host[700'003] == std::byte{0});
  // Each byte to another place of the file.
  bulk_range back{.offset = 2'000'000, .length = 500'000, .position = 3};
  CHECK(s.server.bulk().write(s.fd, {&back, 1}, s.memory(*copier)) == 0);
  CHECK(back.result == 500'000);
  bulk_range again{.offset = 2'000'000, .length = 500'000};
  CHECK(s.server.bulk().read(s.fd, {&again, 1}, std::span{host}) == 0);
  CHECK(wrong_bytes(host.data(), 5, 500'000) == 0);
}

TEST_CASE("bulk device: a copy that fails ends its range with EIO; the other ranges are moved") {
  for (bool const at_start : {false, true}) {
    setup s;
    for (bool const write : {false, true}) {
      failing copier{at_start};
      bulk_range ranges[] = {{.length = 100'000},
                             {.offset = 200'000, .length = 64 << 10, .position = 200'000},
                             {.offset = 400'000, .length = 64 << 10, .position = 400'000}};
      auto& bulk = s.server.bulk();
      int const error = write ? bulk.write(s.fd, ranges, s.memory(copier))
                              : bulk.read(s.fd, ranges, s.memory(copier));
      CHECK(error == -EIO);
      int failed = 0;
      for (auto const& r : ranges) failed += r.result == -EIO || std::uint64_t(r.result) < r.length;
      CHECK(failed == 1);
    }
  }
}
