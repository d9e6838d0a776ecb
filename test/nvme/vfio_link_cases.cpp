// Of the link through vfio what needs a drive: how it sets the drive up, and who may have it.
#include <test/nvme/conformance.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>
#include <nvme-host/vfio.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

namespace gpufs::test {

namespace {

std::string device() { return std::getenv("GPUFS_NVME_DEVICE"); }

TEST_CASE("vfio link: the drive may reach memory, and asserts no legacy interrupt") {
  static_cast<void>(conformance_link());
  auto const bytes = pread_bytes("/sys/bus/pci/devices/" + device() + "/config", 4, 2);
  REQUIRE(bytes.size() == 2);
  std::uint16_t command = 0;
  std::memcpy(&command, bytes.data(), 2);
  CHECK((command & 0x406) == 0x406);
}

TEST_CASE("vfio link: a drive that is open already is an error that says so") {
  static_cast<void>(conformance_link());
  try {
    nvme_host::vfio_link const again{device()};
    FAIL("it was opened twice");
  } catch (std::system_error const& e) {
    CHECK(std::string{e.what()}.find("is open already: name each drive once") != std::string::npos);
  }
}

}  // namespace

}  // namespace gpufs::test
