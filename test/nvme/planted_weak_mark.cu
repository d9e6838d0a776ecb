// A planted bug: the mark of an entry is stored without an order, and another block rings the
// doorbell. ThreadSanitizer must report a data race between the entry's stores and the controller's
// load. With the argument `clean` the order is there, and the program must pass.
#include <test/nvme/queue_scene.hpp>

#include <nvme-host/software.hpp>

#include <cstdio>
#include <cstring>

namespace {

namespace nvme = gpufs::nvme;
namespace base = gpufs::base;

/// Block 0 puts an entry and rings no doorbell. Block 1 rings it, and block 0 waits for the answer.
template <gpufs::memory_order Mark>
__global__ void put_and_ring(nvme::queue_group_ref group, nvme::prp_pair memory,
                             std::int32_t* result) {
  nvme::queue_pair_ref const& q = group.pairs[0];
  if (blockIdx.x == 1) {
    unsigned state = 0;
    bool rung = false;
    while (!rung) {
      nvme::move_tail<base::whole_warp>(q);
      std::uint64_t tail = 0;
      if (gpufs::lane_id() == 0)
        tail = gpufs::atomic_ref<std::uint64_t>(q.words->tail).load(gpufs::memory_order_relaxed);
      rung = base::warp_broadcast(tail) >> 32 != 0;
      gpufs::backoff(state);
    }
    return;
  }
  nvme::channel c;
  bool const got = nvme::try_channels<base::whole_warp>(group, 0, gpufs::lane_id() == 0,
                                                        nvme::direction::read, c);
  nvme::sqe const entry = nvme::make_transfer(
      nvme::opcode::read, nvme::command_id(c.number, c.sequence, q.log2), 1, {0, 1}, memory);
  nvme::put<base::whole_warp, Mark>(q, __ballot_sync(base::all_lanes, got), entry);
  // Not await(): it would ring the doorbell, too. Not backoff(): its lock would order the blocks.
  while (gpufs::atomic_ref<std::uint64_t>(q.words->tail).load(gpufs::memory_order_relaxed) == 0) {
  }
  unsigned state = 0;
  bool open = true;
  while (__any_sync(base::all_lanes, open)) {
    nvme::drain<base::whole_warp>(nvme::group_receiver{group.control}, q);
    std::uint64_t const word = got ? nvme::load_completion(q, c.number) : 0;
    open = got && gpufs::rpc::completion_sequence(word) != c.sequence;
    if (got && !open) *result = gpufs::rpc::completion_result(word);
    gpufs::backoff(state);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool const clean = argc > 1 && std::strcmp(argv[1], "clean") == 0;
  auto const disk = std::make_shared<gpufs::nvme_controller::memory_namespace>(4096, 512);
  gpufs::nvme_host::software_link link{{.namespaces = {disk}}, gpufs::test::pinned_memory()};
  gpufs::nvme_host::control_plane plane{link, {.memory = gpufs::test::pinned_memory()}};
  plane.bring_up();
  gpufs::nvme_host::dma_memory const data{link.memory(), gpufs::test::pinned_memory(), 4096};
  nvme::queue_group const group{gpufs::test::make_pairs(plane, 1, 16)};
  gpufs::buffer<std::int32_t> result(1);
  gpufs::launch(
      clean ? put_and_ring<base::after_settling> : put_and_ring<gpufs::memory_order_relaxed>, 2, 32,
      group.ref(), nvme::prp_pair{data.bus(), 0}, result.data());
  gpufs::synchronize();
  std::int32_t error = -1;
  result.copy_to_host(&error, 1);
  std::printf("%s: result %d\n", clean ? "clean" : "planted", error);
  return error == 0 ? 0 : 1;
}
