// What of the link through vfio needs no drive: addresses, and errors that name the remedy.
#include <test/support/seed.hpp>

#include <doctest/doctest.h>
#include <nvme-host/vfio.hpp>

#include <map>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include <sys/mman.h>

using gpufs::nvme_host::iova_allocator;
using gpufs::nvme_host::mapped_registers;
using gpufs::nvme_host::vfio_link;

TEST_CASE("nvme vfio: addresses lie in the ranges, and the first 64 KiB stay free") {
  iova_allocator addresses{{{0x100000, 0x103fff}, {0, 0x11fff}}};
  CHECK(addresses.take(4096) == 0x10000);
  CHECK(addresses.take(8192) == 0x100000);
  CHECK(addresses.take(4096) == 0x11000);
  CHECK(addresses.take(4096) == 0x102000);
  CHECK(addresses.take(8192) == 0);
  addresses.give_back(0x100000);
  CHECK(addresses.take(16384) == 0);
  CHECK(addresses.take(8192) == 0x100000);
  CHECK(addresses.take(4096) == 0x103000);
  CHECK(addresses.take(4096) == 0);
}

TEST_CASE("nvme vfio: a range may end with the last address of all") {
  iova_allocator addresses{{{~0ull - 8191, ~0ull}}};
  CHECK(addresses.take(8192) == ~0ull - 8191);
  CHECK(addresses.take(4096) == 0);
  CHECK(iova_allocator{{}}.take(4096) == 0);
}

TEST_CASE("nvme vfio: pieces that come and go never overlap") {
  std::mt19937_64 random{gpufs::test::seed()};
  iova_allocator addresses{{{0, (1 << 20) - 1}, {1 << 24, (1 << 24) + (1 << 20) - 1}}};
  std::map<std::uint64_t, std::uint64_t> taken;
  for (unsigned i = 0; i < 5000; ++i) {
    if (!taken.empty() && random() % 2 == 0) {
      auto at = taken.begin();
      std::advance(at, static_cast<long>(random() % taken.size()));
      addresses.give_back(at->first);
      taken.erase(at);
      continue;
    }
    std::uint64_t const bytes = (1 + random() % 40) * 4096;
    std::uint64_t const first = addresses.take(bytes);
    if (first == 0) continue;
    CHECK(first >= 65536);
    auto const above = taken.lower_bound(first);
    if (above != taken.end()) CHECK(first + bytes <= above->first);
    if (above != taken.begin()) CHECK(std::prev(above)->second <= first);
    taken[first] = first + bytes;
  }
}

TEST_CASE("nvme vfio: registers are mapped as long as their owner lives") {
  void* const base =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(base != MAP_FAILED);
  auto const is_mapped = [base] { return ::msync(base, 4096, MS_ASYNC) == 0; };
  {
    mapped_registers owner;
    {
      mapped_registers first{base, 4096};
      owner = std::move(first);
    }
    CHECK(is_mapped());
    CHECK(owner.view().bytes() == 4096);
  }
  CHECK(!is_mapped());
}

TEST_CASE("nvme vfio: a device that is not there is an error that says where to look") {
  for (char const* const name : {"0000:ff:1f.7", "", "nonsense"}) {
    try {
      vfio_link const link{name};
      FAIL("it was opened");
    } catch (std::system_error const& e) {
      CHECK(std::string{e.what()}.find("lspci") != std::string::npos);
    }
  }
}
