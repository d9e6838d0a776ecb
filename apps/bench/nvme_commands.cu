// Commands of kernels by gpufs's own protocol.
#include <gpufs/base/mix64.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/nvme/transfer.hpp>

#include <apps/bench/nvme_commands.hpp>
#include <apps/bench/nvme_first_launch.hpp>
#include <apps/bench/nvme_formal_order.hpp>
#include <apps/common/seconds_since.hpp>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>

namespace gpufs::apps {

namespace {

using team = base::whole_warp;

GPUFS_HOST_DEVICE constexpr std::uint64_t block_word(std::uint64_t lba, std::uint64_t k) {
  return base::mix64(lba << 8 | k);
}

/// The library's order: entries are loaded back.
struct loading_back {
  static __device__ void help(nvme::queue_group_ref const& g, std::uint32_t pair) {
    nvme::help<team>(g, pair);
  }
  static __device__ void submit(nvme::queue_group_ref const& g, bool sends, nvme::channel const& c,
                                nvme::sqe const& command) {
    nvme::submit<team>(g, sends, c, command);
  }
  static __device__ std::int32_t await(nvme::queue_group_ref const& g, bool waits,
                                       nvme::channel const& c, bool& answered) {
    return nvme::await<team>(g, waits, c, answered);
  }
};

/// Sends the command of each lane and waits for all answers, as nvme::transfer() does. All lanes of
/// a warp call, and each gets its result. A controller's "try again" is an error. Channels of chunk
/// `chunk` are tried first; the next call begins where this one found some.
template <class Order = loading_back>
__device__ std::int32_t carry_out(nvme::queue_group_ref const& g, std::uint32_t& chunk,
                                  nvme::sqe const& command) {
  std::uint64_t start = device_clock_ns();
  unsigned pause = 0;
  std::int32_t result = 0;
  bool pending = true;
  GPUFS_ROLLED
  while (team::ballot(pending) != 0) {
    nvme::channel c;
    bool const got = nvme::try_channels<team>(g, chunk, pending, nvme::direction::read, c);
    if (team::ballot(got) == 0) {
      Order::help(g, chunk % nvme::chunks_of(g) % g.count);
      ++chunk;
      std::int32_t const error = nvme::end_of_wait<team>(g, start);
      if (error != 0) return pending ? error : result;
      backoff(pause, nvme::longest_pause_ns);
      continue;
    }
    Order::submit(g, got, c, command);
    bool answered = false;
    std::int32_t const came = Order::await(g, got, c, answered);
    if (got) {
      // Nothing was stored or loaded for the channel's next holder.
      nvme::return_channel(g, c, answered, base::after_settling);
      pending = false;
      result = came;
    }
    if (team::ballot(pending) == 0) break;
    start = device_clock_ns();
    ++chunk;
  }
  return result;
}

/// Adds what a warp has done to the report. All lanes call.
__device__ void report_warp(command_report* report, std::uint32_t rounds, std::int32_t error,
                            std::uint64_t wrong) {
  using counter = atomic_ref<std::uint64_t, scope::device>;
  if (wrong != 0) counter(report->wrong).fetch_add(wrong, memory_order_relaxed);
  if (error != 0) {
    std::int64_t none = 0;
    atomic_ref<std::int64_t, scope::device>(report->error)
        .compare_exchange_strong(none, error, memory_order_relaxed);
  }
  if (lane_id() == 0)
    counter(report->answered)
        .fetch_add(std::uint64_t{rounds} * base::warp_size, memory_order_relaxed);
}

struct flushes {
  nvme::queue_group_ref group;
  std::uint32_t rounds;
};

template <class Order>
__global__ void __launch_bounds__(most_command_threads, 1)
    flush_kernel(flushes plan, command_report* report) {
  nvme::sqe const command = nvme::make_flush(0, plan.group.nsid);
  std::uint32_t chunk = base::warp_number();
  std::int32_t error = 0;
  std::uint32_t done = 0;
  for (; done < plan.rounds; ++done) {
    error = carry_out<Order>(plan.group, chunk, command);
    if (team::ballot(error != 0) != 0) break;
  }
  report_warp(report, done, error, 0);
}

struct block_reads {
  nvme::queue_group_ref group;
  std::byte* data;
  std::uint64_t bus;
  std::uint64_t blocks;  ///< of the namespace
  std::uint32_t rounds;
};

/// Pulls the blocks of a warp's lanes. Returns those parts of the calling lane that are wrong. All
/// lanes call.
__device__ std::uint32_t check_blocks(std::byte const* of_warp, std::uint64_t lba) {
  constexpr unsigned together = 8;
  std::uint32_t wrong = 0;
  auto const* const parts = reinterpret_cast<uint4 const*>(of_warp) + lane_id();
  for (unsigned first = 0; first < base::warp_size; first += together) {
    uint4 part[together];
    GPUFS_UNROLL
    for (unsigned i = 0; i < together; ++i)
      part[i] = __ldcv(parts + (first + i) * (read_block_bytes / sizeof(uint4)));
    GPUFS_UNROLL
    for (unsigned i = 0; i < together; ++i) {
      std::uint64_t const of = base::warp_broadcast(lba, static_cast<int>(first + i));
      std::uint64_t const low = std::uint64_t{part[i].y} << 32 | part[i].x;
      std::uint64_t const high = std::uint64_t{part[i].w} << 32 | part[i].z;
      bool const right =
          low == block_word(of, 2 * lane_id()) && high == block_word(of, 2 * lane_id() + 1);
      wrong += right ? 0 : 1;
    }
  }
  return wrong;
}

__global__ void __launch_bounds__(most_command_threads, 1)
    read_kernel(block_reads plan, command_report* report) {
  std::uint32_t const thread = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint64_t const at = std::uint64_t{thread} * read_block_bytes;
  std::uint64_t const of_warp = at - lane_id() * read_block_bytes;
  std::uint32_t chunk = base::warp_number();
  std::int32_t error = 0;
  std::uint32_t done = 0;
  std::uint64_t wrong = 0;
  for (; done < plan.rounds; ++done) {
    std::uint64_t const lba = base::mix64(std::uint64_t{thread} << 32 | done) % plan.blocks;
    error = carry_out(
        plan.group, chunk,
        nvme::make_transfer(nvme::opcode::read, 0, plan.group.nsid, {lba, 1}, {plan.bus + at, 0}));
    if (team::ballot(error != 0) != 0) break;
    wrong += check_blocks(plan.data + of_warp, lba);
    __syncwarp();  // the next command may overwrite the bytes
  }
  report_warp(report, done, error, wrong);
}

template <class Plan>
command_run run(char const* what, answered_queues& on, command_shape const& shape,
                void (*kernel)(Plan, command_report*), Plan const& plan) {
  buffer<command_report> reports(1);
  reports.fill_zero();
  load_kernel(kernel);
  run_once_alone(kernel, plan, reports.data());
  answers given(on);
  auto const start = std::chrono::steady_clock::now();
  launch(kernel, shape.blocks, shape.threads, plan, reports.data());
  this_thread_stream().synchronize();
  double const seconds = seconds_since(start);
  given.end();
  command_report report;
  reports.copy_to_host(&report, 1);
  nvme::queue_group_counts const counts = on.group().counts();
  report.doorbells = counts.doorbells;
  report.head_doorbells = counts.head_doorbells;
  command_run const done = checked_run(what, on, shape, report, seconds);
  if (counts.drained != done.commands || counts.strays != 0 || counts.own_faults != 0)
    throw std::runtime_error(
        std::string(what) +
        ": completions were lost, or came twice: " + std::to_string(done.commands) + " commands, " +
        std::to_string(counts.drained) + " completions, " + std::to_string(counts.strays) +
        " of no command, " + std::to_string(counts.own_faults) + " say that the driver is wrong");
  return done;
}

}  // namespace

command_run send_flushes(answered_queues& on, command_shape const& shape) {
  return run("commands", on, shape, flush_kernel<loading_back>,
             flushes{on.group().ref(), shape.rounds});
}

command_run send_flushes_formally(answered_queues& on, command_shape const& shape) {
  return run("commands in formal order", on, shape, flush_kernel<formal_order<team>>,
             flushes{on.group().ref(), shape.rounds});
}

command_run read_blocks(bench_controllers& on, command_shape const& shape) {
  block_reads const plan{on.group().ref(), on.data(), on.bus(), on.options().blocks->blocks(),
                         shape.rounds};
  return run("reads", on, shape, read_kernel, plan);
}

void fill_blocks(nvme_controller::memory_namespace const& blocks) {
  constexpr std::uint64_t words = read_block_bytes / sizeof(std::uint64_t);
  auto const bytes = blocks.bytes();
  for (std::uint64_t i = 0; i < bytes.size() / sizeof(std::uint64_t); ++i) {
    std::uint64_t const word = block_word(i / words, i % words);
    std::memcpy(bytes.data() + i * sizeof word, &word, sizeof word);
  }
}

}  // namespace gpufs::apps
