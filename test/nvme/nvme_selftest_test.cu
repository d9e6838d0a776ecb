// The reads of `gpufs nvme SPEC selftest`: what they must find of a controller that loses bytes.
// And the memory that `gpufs nvme mem:SIZE` takes.
#include <apps/common/nvme_queues.hpp>
#include <apps/gpufs/nvme_controllers.hpp>
#include <apps/gpufs/nvme_selftest.hpp>
#include <test/nvme/forwarding_memory.hpp>
#include <test/nvme/pattern.hpp>

#include <doctest/doctest.h>
#include <nvme-controller/controller.hpp>
#include <nvme-host/software.hpp>

#include <cstdint>
#include <fstream>
#include <memory>
#include <utility>

#include <unistd.h>

using namespace gpufs;

namespace {

/// Memory whose reads succeed, and leave the bytes of one length as they are.
struct losing_disk final : test::forwarding_memory {
  std::uint64_t lost_bytes;

  explicit losing_disk(std::uint64_t lost)
      : forwarding_memory(std::make_shared<nvme_controller::memory_namespace>(1 << 20, 512)),
        lost_bytes{lost} {
    test::fill_pattern(memory->bytes(), 0);
  }
  std::uint16_t read(std::uint64_t offset, segments to) override {
    return to[0].bytes == lost_bytes ? nvme::status::success : memory->read(offset, to);
  }
};

apps::nvme_selftest_result self_test(std::shared_ptr<nvme_controller::block_namespace> blocks) {
  nvme_host::software_link link{{.namespaces = {std::move(blocks)}}, apps::kernel_memory()};
  nvme_host::control_plane plane{link, {.memory = apps::kernel_memory()}};
  plane.bring_up();
  auto const seen =
      apps::run_nvme_selftest(plane, plane.identify_namespace(1), {.blocks = 2, .rounds = 2});
  CHECK(seen.failed == 0);
  CHECK(seen.reads == 2 * 64 * 2 * 9);
  return seen;
}

}  // namespace

TEST_CASE("nvme self-test: reads whose bytes arrive do not differ") {
  CHECK(self_test(std::make_shared<losing_disk>(0)).differing == 0);
}

TEST_CASE("nvme self-test: bytes that a controller says to have read, and has not, differ") {
  constexpr std::uint64_t pages = 2 * 64 * 2;
  CHECK(self_test(std::make_shared<losing_disk>(4096)).differing == pages);
  CHECK(self_test(std::make_shared<losing_disk>(512)).differing == pages);
  // Neither of the two ways transfers anything.
  CHECK(self_test(std::make_shared<nvme_controller::null_namespace>(2048, 512)).differing == pages);
}

namespace {

/// Bytes of memory that this process has.
std::uint64_t resident() {
  std::uint64_t size = 0, pages = 0;
  std::ifstream{"/proc/self/statm"} >> size >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("nvme controllers: memory is touched only if it is to be filled") {
  constexpr std::uint64_t bytes = 256 << 20;
  auto const before = resident();
  auto const link = apps::open_controller({apps::nvme_spec::kinds::memory, bytes, {}}, 1,
                                          apps::kernel_memory(), false);
  nvme_host::control_plane plane{*link, {.memory = apps::kernel_memory()}};
  plane.bring_up();
  CHECK(plane.identify_namespace(1).blocks == bytes / 512);
  CHECK(resident() < before + bytes / 2);
  auto const filled = apps::open_controller({apps::nvme_spec::kinds::memory, bytes, {}}, 1,
                                            apps::kernel_memory(), true);
  CHECK(resident() >= before + bytes / 2);
}
