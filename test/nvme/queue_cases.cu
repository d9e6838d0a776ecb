// Conformance of the device's side: kernels read and write through queue pairs of any controller.
#include <test/nvme/conformance.hpp>
#include <test/nvme/queue_scene.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

namespace gpufs::test {

namespace {

/// The controller under test, up, with data for `threads` threads.
struct device_scene {
  nvme_host::control_plane plane{conformance_link(), {.memory = pinned_memory()}};
  nvme_host::dma_memory data;
  buffer<read_counts> counts = zeroed<read_counts>(1);

  explicit device_scene(std::uint32_t threads, std::uint32_t slot_bytes)
      : data{conformance_link().memory(), pinned_memory(), std::uint64_t{threads} * slot_bytes} {
    plane.bring_up();
  }
  ~device_scene() { CHECK(plane.stop()); }

  [[nodiscard]] read_plan plan(nvme::queue_group const& group, std::uint32_t slot_bytes,
                               std::uint32_t rounds, std::uint32_t most_blocks) const {
    return {group.ref(), data.data(), data.bus(), slot_bytes, rounds, most_blocks, 4000, seed(), 0};
  }
  [[nodiscard]] read_counts result() const { return result_in(counts)[0]; }
};

void check_all_right(read_counts const& seen) {
  CHECK(seen.right > 0);
  CHECK(seen.wrong == 0);
  CHECK(seen.late == 0);
  CHECK(seen.failed == 0);
  CHECK(seen.refused == 0);
}

void check_quiet(nvme::queue_group const& group, std::uint64_t commands) {
  auto const seen = group.counts();
  CHECK(seen.drained == commands);
  CHECK(seen.strays == 0);
  CHECK(seen.own_faults == 0);
  CHECK(seen.timeouts == 0);
  CHECK(seen.doorbells <= commands);
  CHECK(group.channels_taken() == 0);
  CHECK_FALSE(group.left_locked());
}

TEST_CASE("nvme queues: warps of many blocks read through one queue of 16") {
  constexpr unsigned blocks = 4, threads = 64;
  device_scene scene{blocks * threads, 8192};
  nvme::queue_group const group{make_pairs(scene.plane, 1, 16)};
  launch(read_kernel<base::whole_warp>, blocks, threads, scene.plan(group, 8192, 12, 16),
         scene.counts.data());
  read_counts const seen = scene.result();
  check_all_right(seen);
  check_quiet(group, seen.right);
}

TEST_CASE("nvme queues: lanes that work by themselves read through several queues") {
  constexpr unsigned blocks = 3, threads = 64;
  device_scene scene{blocks * threads, 4096};
  nvme::queue_group const group{make_pairs(scene.plane, 3, 64)};
  launch(read_kernel<base::one_lane>, blocks, threads, scene.plan(group, 4096, 8, 8),
         scene.counts.data());
  read_counts const seen = scene.result();
  check_all_right(seen);
  check_quiet(group, seen.right);
}

TEST_CASE("nvme queues: tickets and heads go on where they wrap at 2^32") {
  constexpr unsigned blocks = 2, threads = 64;
  device_scene scene{blocks * threads, 4096};
  nvme::queue_group const group{make_pairs(scene.plane, 1, 16), {.first = 0u - 4 * 16 * 3}};
  launch(read_kernel<base::whole_warp>, blocks, threads, scene.plan(group, 4096, 8, 8),
         scene.counts.data());
  read_counts const seen = scene.result();
  check_all_right(seen);
  CHECK(seen.right > 3 * 4 * 16);
  check_quiet(group, seen.right);
}

TEST_CASE("nvme queues: heads go on where their 31 bits wrap") {
  constexpr unsigned blocks = 2, threads = 64;
  device_scene scene{blocks * threads, 4096};
  nvme::queue_group const group{make_pairs(scene.plane, 1, 16), {.first = 0x80000000u - 64}};
  launch(read_kernel<base::whole_warp>, blocks, threads, scene.plan(group, 4096, 8, 8),
         scene.counts.data());
  read_counts const seen = scene.result();
  check_all_right(seen);
  check_quiet(group, seen.right);
}

TEST_CASE("nvme queues: one warp alone, and one thread alone") {
  device_scene scene{32, 4096};
  nvme::queue_group const group{make_pairs(scene.plane, 2, 16)};
  launch(read_kernel<base::whole_warp>, 1, 32, scene.plan(group, 4096, 20, 8), scene.counts.data());
  this_thread_stream().synchronize();
  launch(read_kernel<base::one_lane>, 1, 1, scene.plan(group, 4096, 20, 8), scene.counts.data());
  read_counts const seen = scene.result();
  check_all_right(seen);
  check_quiet(group, seen.right);
}

/// Each thread writes its own block, reads it back, and asks for a block behind the end.
__global__ void write_kernel(read_plan plan, read_counts* out, std::int32_t* errors) {
  std::uint32_t const thread = grid_thread();
  auto* const words = reinterpret_cast<std::uint64_t volatile*>(plan.data + std::uint64_t{thread} *
                                                                                plan.slot_bytes);
  std::uint64_t const lba = first_written + thread;
  for (unsigned i = 0; i < 64; ++i) words[i] = pattern_word(plan.seed + thread, i);
  base::settle(const_cast<std::uint64_t const&>(words[0]));
  nvme::transfer_request request{
      nvme::direction::write, {lba, 1}, slot_memory(plan, thread, pattern_lba)};
  std::int32_t error = nvme::transfer<base::whole_warp>(plan.group, true, request);
  for (unsigned i = 0; i < 64; ++i) words[i] = 0;
  request.to = nvme::direction::read;
  if (error == 0) error = nvme::transfer<base::whole_warp>(plan.group, true, request);
  bool right = error == 0;
  for (unsigned i = 0; i < 64; ++i)
    right = right && words[i] == pattern_word(plan.seed + thread, i);
  add_result(out, error, right);

  // Odd lanes ask for what is not there; even ones are not disturbed.
  bool const odd = (thread & 1) != 0;
  request.range.lba = odd ? plan.blocks : thread;
  errors[thread] = nvme::transfer<base::whole_warp>(plan.group, true, request);
  if (!odd && errors[thread] == 0)
    errors[thread] =
        slot_is_right(plan.data + std::uint64_t{thread} * plan.slot_bytes, thread, 1) ? 1 : 2;
}

TEST_CASE("nvme queues: writes are read back, and an error reaches its own lane only") {
  constexpr unsigned blocks = 4, threads = 32;
  device_scene scene{blocks * threads, 512};
  nvme::queue_group const group{make_pairs(scene.plane, 2, 32)};
  auto errors = zeroed<std::int32_t>(blocks * threads);
  read_plan plan = scene.plan(group, 512, 1, 1);
  plan.blocks = pattern_blocks;
  launch(write_kernel, blocks, threads, plan, scene.counts.data(), errors.data());
  read_counts const seen = scene.result();
  check_all_right(seen);
  CHECK(seen.right == blocks * threads);
  std::vector<std::int32_t> const each = contents(errors);
  for (unsigned i = 0; i < each.size(); ++i) CHECK(each[i] == (i % 2 == 0 ? 1 : -EIO));
}

}  // namespace

}  // namespace gpufs::test
