// Resets while kernels submit: all callers return, and nothing is wrong afterwards.
#include <test/nvme/queue_scene.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <nvme-host/software.hpp>

#include <atomic>
#include <list>

namespace gpufs::test {

namespace {

constexpr unsigned grid = 3, block = 64;

/// The group of now, in pinned memory. Groups follow each other; kernels take the newest.
struct published_groups {
  static constexpr unsigned most = 128;
  nvme::queue_group_ref group[most];
  std::uint64_t count;  ///< the newest is count - 1
  std::uint64_t stops;
};

/// Warps read on the newest group until the host says that it is enough.
__global__ void endless_readers(read_plan plan, published_groups* groups, read_counts* out) {
  std::uint32_t const thread = grid_thread();
  std::byte* const slot = plan.data + std::uint64_t{thread} * plan.slot_bytes;
  for (std::uint64_t round = 0;; ++round) {
    std::uint64_t newest = 0, stops = 0;
    if (lane_id() == 0) {
      // Pairs with the host's release of a new group.
      newest = atomic_ref<std::uint64_t, scope::system>(groups->count).load(memory_order_acquire);
      stops = atomic_ref<std::uint64_t, scope::system>(groups->stops).load(memory_order_relaxed);
    }
    newest = base::warp_broadcast(newest);
    if (base::warp_broadcast(stops) != 0) return;
    __syncwarp();
    std::uint64_t const lba = base::mix64(plan.seed + thread * 0x10001ull + round) % plan.blocks;
    nvme::queue_group_ref const group = groups->group[newest - 1];
    nvme::transfer_request const request{
        nvme::direction::read, {lba, 1}, slot_memory(plan, thread, pattern_lba)};
    std::int32_t const error = nvme::transfer<base::whole_warp>(group, true, request);
    add_result(out, error, error == 0 && slot_is_right(slot, lba, 1));
    __syncwarp();
  }
}

TEST_CASE("nvme: a hundred resets while kernels submit") {
  unsigned const rounds = scaled(100, 20);
  auto const disk = std::make_shared<nvme_controller::memory_namespace>(
      pattern_blocks * pattern_lba, pattern_lba);
  fill_pattern(disk->bytes(), 0);
  nvme_host::software_link link{
      {.namespaces = {disk}, .threads = 2}, pinned_memory(), std::uint64_t{1} << 44};
  nvme_host::control_plane plane{link, {.memory = pinned_memory()}};
  nvme_host::dma_memory const data{link.memory(), pinned_memory(),
                                   std::uint64_t{grid} * block * pattern_lba};
  pinned_buffer<published_groups> groups(1);
  groups.fill_zero();
  auto counts = zeroed<read_counts>(1);
  std::list<nvme::queue_group> made;  // all of them, until the kernel has ended
  std::uint16_t next_id = 1;
  auto const publish = [&] {
    plane.bring_up();
    std::vector<nvme::queue_pair_place> places;
    for (unsigned i = 0; i < 2; ++i) {
      auto const& pair = plane.create_queue_pair(next_id, 16);
      places.push_back({next_id, 16, pair.sq, pair.cq, pair.sq_doorbell, pair.cq_doorbell});
      next_id =
          next_id == nvme_controller::most_queues ? 1 : static_cast<std::uint16_t>(next_id + 1);
    }
    made.emplace_back(places);
    std::uint64_t const at = made.size() - 1;
    groups[0].group[at] = made.back().ref();
    std::atomic_ref<std::uint64_t>{groups[0].count}.store(at + 1, std::memory_order_release);
  };
  publish();
  auto const& commands = link.controller().counters().commands;
  read_plan const plan{{}, data.data(), data.bus(), pattern_lba, 0, 1, 4000, seed(), 0};
  launch(endless_readers, grid, block, plan, groups.data(), counts.data());
  for (unsigned round = 0; round < rounds; ++round) {
    std::uint64_t const before = commands;
    wait_until([&] { return commands >= before + 20; }, "commands of this round");
    made.back().fail();
    REQUIRE(plane.stop());
    publish();
  }
  std::uint64_t const before = commands;
  wait_until([&] { return commands >= before + 20; }, "commands after the last reset");
  std::atomic_ref<std::uint64_t>{groups[0].stops}.store(1, std::memory_order_relaxed);
  read_counts const seen = result_in(counts)[0];
  CHECK(seen.right > rounds);
  CHECK(seen.failed > 0);
  CHECK(seen.wrong == 0);
  CHECK(seen.late == 0);
  CHECK(seen.refused == 0);
  for (nvme::queue_group const& each : made) {
    CHECK(each.strays() == 0);
    CHECK_FALSE(each.left_locked());
  }
  CHECK(made.back().channels_taken() == 0);
  CHECK(plane.stop());
  plane.free_retired();
}

}  // namespace

}  // namespace gpufs::test
