// Volumes of drives that are slow: each command has its own time.
#include <test/nvme/volume_scene.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>

using namespace gpufs;
using namespace gpufs::test;
using std::chrono::milliseconds;

TEST_CASE("slow drive: a call may last longer than its commands, without a reset") {
  // 88 commands of 30 ms each. A command waits for the 14 before it, the call for all.
  constexpr std::uint64_t size = 11 << 20;
  double const rate = 32 / 0.03;  // of 4 KiB: a command has 128 KiB
  auto const model = std::make_shared<nvme_controller::drive_model>(
      nvme_controller::drive_rates{1e6, 1e6, rate, rate, std::chrono::microseconds{1}});
  volume_scene s{{.bytes = size, .volume = {.timeout = milliseconds{2000}}, .model = model}};
  auto const what = random_bytes(1, size);
  CHECK(s.write(what, 0) == std::int64_t(size));
  CHECK(s.read(0, size) == what);
  CHECK(s.v->drives()[0]->counters().timeouts == 0);
  CHECK(s.v->drives()[0]->counters().resets == 0);
}
