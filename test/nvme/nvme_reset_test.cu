// Resets while kernels submit: all callers return, and nothing is wrong afterwards.
#include <test/nvme/forwarding_memory.hpp>
#include <test/nvme/queue_scene.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <nvme-host/software.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace gpufs::test {

namespace {

constexpr unsigned grid = 3, block = 64;
constexpr unsigned looks = 4;  // at the bytes of a read: nothing changes them later

/// The group of now, in pinned memory. Groups follow each other; kernels take the newest.
struct published_groups {
  static constexpr unsigned most = 128;
  nvme::queue_group_ref group[most];
  std::uint64_t count;  ///< the newest is count - 1
  std::uint64_t stops;
};

/// What lane 0 sees of the groups. All lanes of a warp call, and get it.
struct group_news {
  std::uint64_t count;
  bool stops;
};
__device__ inline group_news look_at(published_groups* groups) {
  std::uint64_t count = 0, stops = 0;
  if (lane_id() == 0) {
    // Pairs with the host's release of a new group.
    count = atomic_ref<std::uint64_t, scope::system>(groups->count).load(memory_order_acquire);
    stops = atomic_ref<std::uint64_t, scope::system>(groups->stops).load(memory_order_relaxed);
  }
  count = base::warp_broadcast(count);
  stops = base::warp_broadcast(stops);
  __syncwarp();
  return {count, stops != 0};
}

/// Warps read on the newest group until the host says that it is enough. The controller may still
/// write to the memory of a command that failed, until it has been stopped. So a warp with an error
/// uses its memory again once there is a newer group.
__global__ void endless_readers(read_plan plan, published_groups* groups, read_counts* out) {
  std::uint32_t const thread = grid_thread();
  std::byte* const slot = plan.data + std::uint64_t{thread} * plan.slot_bytes;
  std::uint64_t failed = 0;  // groups that this warp has given up
  unsigned pause = 0;
  for (std::uint64_t round = 0;; ++round) {
    group_news const now = look_at(groups);
    if (now.stops) return;
    if (now.count == failed) {
      backoff(pause, 4096);
      continue;
    }
    std::uint64_t const lba = base::mix64(plan.seed + thread * 0x10001ull + round) % plan.blocks;
    nvme::queue_group_ref const group = groups->group[now.count - 1];
    nvme::transfer_request const request{
        nvme::direction::read, {lba, 1}, slot_memory(plan, thread, pattern_lba)};
    std::int32_t const error = nvme::transfer<base::whole_warp>(group, true, request);
    bool right = error == 0;
    for (unsigned look = 0; look < looks; ++look) {
      right = right && slot_is_right(slot, lba, 1);
      backoff(pause, 4096);
    }
    pause = 0;
    add_result(out, error, right);
    if (__ballot_sync(base::all_lanes, error != 0) != 0) failed = now.count;
    __syncwarp();
  }
}

/// Memory that one thread of the controller reads slowly. So commands of a failed group end late,
/// while the other thread answers new ones.
class late_namespace final : public forwarding_memory {
 public:
  late_namespace(std::uint64_t bytes, std::uint32_t lba)
      : forwarding_memory(std::make_shared<nvme_controller::memory_namespace>(bytes, lba)) {
    fill_pattern(memory->bytes(), 0);
  }
  std::uint16_t read(std::uint64_t offset, segments to) override {
    thread_local bool const late = !has_late_.exchange(true);
    thread_local unsigned reads = 0;
    if (late && reads++ % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return memory->read(offset, to);
  }

 private:
  std::atomic<bool> has_late_{false};
};

TEST_CASE("nvme: a hundred resets while kernels submit") {
  unsigned const rounds = scaled(100, 20);
  auto const disk = std::make_shared<late_namespace>(pattern_blocks * pattern_lba, pattern_lba);
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
