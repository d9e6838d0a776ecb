#include <gpufs/base/mix64.hpp>
#include <gpufs/base/settled.hpp>
#include <gpufs/device.hpp>
#include <gpufs/nvme/queue_group.hpp>
#include <gpufs/nvme/transfer.hpp>

#include <apps/common/nvme_queues.hpp>
#include <apps/gpufs/nvme_selftest.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>

namespace gpufs::apps {

namespace {

constexpr std::uint32_t slot_bytes = 2 * nvme::page_bytes;  // of a thread: one page for each way

struct selftest_counts {
  std::uint64_t reads;
  std::uint64_t differing;
  std::uint64_t failed;
  std::int64_t first_error;
  std::uint64_t end_refused;
};

struct selftest_plan {
  nvme::queue_group_ref group;
  std::byte* data;
  std::uint64_t bus;
  std::uint64_t blocks;
  std::uint32_t lba_bytes;
  std::uint32_t rounds;
};

__device__ void add(std::uint64_t& counter) {
  atomic_ref<std::uint64_t, scope::device>(counter).fetch_add(1, memory_order_relaxed);
}

/// A read of the calling lane. All lanes of a warp call.
__device__ std::int32_t read_blocks(selftest_plan const& plan, nvme::block_range range,
                                    std::uint64_t bus, selftest_counts* out) {
  std::int32_t const error =
      nvme::transfer<base::whole_warp>(plan.group, true, {nvme::direction::read, range, {bus, 0}});
  add(error == 0 ? out->reads : out->failed);
  std::int64_t none = 0;
  if (error != 0)
    atomic_ref<std::int64_t, scope::device>(out->first_error)
        .compare_exchange_strong(none, error, memory_order_relaxed);
  return error;
}

/// Gives the two pages of a slot different words: reads that transfer nothing leave them so.
__device__ void fill_slot(std::uint64_t volatile* words, std::uint64_t random) {
  constexpr std::uint32_t page_words = nvme::page_bytes / 8;
  for (std::uint32_t i = 0; i < page_words; ++i) {
    std::uint64_t const word = base::mix64(random + i);
    words[i] = word;
    words[i + page_words] = ~word;
  }
  // Otherwise they may arrive behind the bytes of the reads.
  base::settle(const_cast<std::uint64_t const&>(words[0]));
}

__global__ void selftest_kernel(selftest_plan plan, selftest_counts* out) {
  std::uint32_t const thread = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint64_t const at = std::uint64_t{thread} * slot_bytes;
  std::uint32_t const page_blocks = nvme::page_bytes / plan.lba_bytes;
  for (std::uint32_t round = 0; round < plan.rounds; ++round) {
    std::uint64_t const random = base::mix64(std::uint64_t{thread} << 32 | round);
    std::uint64_t const lba = random % (plan.blocks - page_blocks + 1);
    auto* const words = reinterpret_cast<std::uint64_t volatile*>(plan.data + at);
    fill_slot(words, random);
    std::int32_t error = read_blocks(plan, {lba, page_blocks}, plan.bus + at, out);
    for (std::uint32_t i = 0; i < page_blocks; ++i) {
      std::uint64_t const to = plan.bus + at + nvme::page_bytes + i * plan.lba_bytes;
      std::int32_t const came = read_blocks(plan, {lba + i, 1}, to, out);
      if (error == 0) error = came;
    }
    bool same = true;
    for (std::uint32_t i = 0; i < nvme::page_bytes / 8; ++i)
      same = same && words[i] == words[i + nvme::page_bytes / 8];
    if (error == 0 && !same) add(out->differing);
    __syncwarp();
  }
  if (thread >= base::warp_size) return;
  std::int32_t const behind = nvme::transfer<base::whole_warp>(
      plan.group, lane_id() == 0, {nvme::direction::read, {plan.blocks, 1}, {plan.bus + at, 0}});
  if (thread == 0) out->end_refused = behind == -EIO ? 1 : 0;
}

}  // namespace

nvme_selftest_result run_nvme_selftest(nvme_host::control_plane& plane,
                                       nvme_host::namespace_identity const& blocks,
                                       nvme_selftest_options const& o) {
  std::uint32_t const pairs = plane.request_queues(o.queue_pairs);
  auto places = make_queue_pairs(plane, pairs, std::min(o.depth, plane.most_depth()));
  auto const relay = o.relay ? relay_doorbells(places) : nullptr;
  nvme::queue_group const group{places};
  nvme_host::dma_memory const data{plane.link().memory(), kernel_memory(),
                                   std::uint64_t{o.blocks} * o.threads * slot_bytes};
  buffer<selftest_counts> counts(1);
  counts.fill_zero();
  selftest_plan const plan{group.ref(),   data.data(),      data.bus(),
                           blocks.blocks, blocks.lba_bytes, o.rounds};
  auto const start = std::chrono::steady_clock::now();
  launch(selftest_kernel, o.blocks, o.threads, plan, counts.data());
  this_thread_stream().synchronize();
  std::chrono::duration<double> const time = std::chrono::steady_clock::now() - start;
  selftest_counts seen{};
  counts.copy_to_host(&seen, 1);
  auto const queues = group.counts();
  for (std::uint32_t id = 1; id <= pairs; ++id)
    plane.delete_queue_pair(static_cast<std::uint16_t>(id));
  return {seen.reads,
          seen.differing,
          seen.failed,
          static_cast<std::int32_t>(seen.first_error),
          seen.end_refused != 0,
          queues.doorbells,
          queues.strays,
          time.count()};
}

}  // namespace gpufs::apps
