#include <gpufs/base/warp.hpp>
#include <gpufs/nvme/format.hpp>

#include <apps/bench/nvme_device_controller.hpp>

#include <bit>
#include <numeric>
#include <utility>
#include <vector>

namespace gpufs::apps {

namespace {

using team = base::whole_warp;

constexpr unsigned controller_threads = 128;
constexpr unsigned longest_rest_ns = 64;  ///< between looks at a doorbell
constexpr unsigned looks_per_check = 64;  ///< at the clock and the host's wish, across the bus

struct controller_plan {
  nvme::queue_pair_place const* pairs;
  std::uint32_t count;
  std::uint32_t nsid;
  std::uint32_t cq_log2;     ///< of the entries of a completion queue
  std::uint32_t* ended;      ///< pinned
  std::uint64_t* taken;      ///< over pairs
  std::uint64_t timeout_ns;  ///< without a command
};

/// The value of a doorbell. All lanes call.
__device__ std::uint32_t load_doorbell(std::uint32_t* doorbell) {
  std::uint32_t value = 0;
  // Pairs with the store that rings: the entries are there.
  if (team::lane() == 0)
    value = atomic_ref<std::uint32_t, scope::system>(*doorbell).load(memory_order_acquire);
  return team::broadcast(value);
}

/// Loads what a controller looks at in a command without data: opcode, CID and namespace.
__device__ nvme::sqe load_command(nvme::sqe& from) {
  nvme::sqe command{};
#if defined(__CUDACC__)
  for (unsigned i = 0; i < 2; ++i)
    command.dw[i] = *static_cast<std::uint32_t const volatile*>(&from.dw[i]);
#else
  for (unsigned i = 0; i < 2; ++i) command.dw[i] = from.dw[i];
#endif
  return command;
}

/// Stores a completion, so that it is whole once its phase is seen.
__device__ void store_completion(nvme::cqe& to, nvme::cqe const& entry) {
#if defined(__CUDACC__)
  asm volatile("st.volatile.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(&to), "r"(entry.dw[0]),
               "r"(entry.dw[1]), "r"(entry.dw[2]), "r"(entry.dw[3])
               : "memory");
#else
  // Pairs with nvme::load_entry().
  for (int i = 0; i < 4; ++i)
    atomic_ref<std::uint32_t, scope::system>(to.dw[i]).store(
        entry.dw[i], i == 3 ? memory_order_release : memory_order_relaxed);
#endif
}

__device__ std::uint16_t status_for(nvme::sqe const& command, std::uint32_t nsid) {
  if ((command.dw[0] & 0xff) != static_cast<std::uint32_t>(nvme::opcode::flush))
    return nvme::status::invalid_opcode;
  return command.dw[1] == nsid ? nvme::status::success : nvme::status::invalid_namespace;
}

/// Whether the controller is to end. All lanes call.
__device__ bool is_over(controller_plan const& plan, std::uint64_t last_command) {
  bool over = false;
  if (team::lane() == 0) {
    // Relaxed: a wish that announces nothing.
    over = atomic_ref<std::uint32_t, scope::system>(*plan.ended).load(memory_order_relaxed) != 0 ||
           device_clock_ns() - last_command > plan.timeout_ns;
  }
  return team::ballot(over) != 0;
}

/// Answers `n` commands, from number `first` of all on: each has the completion of its number. All
/// lanes call.
__device__ void answer(controller_plan const& plan, nvme::queue_pair_place const& q,
                       std::uint32_t first, std::uint32_t n) {
  std::uint32_t const at = first + team::lane();
  bool const mine = team::lane() < n;
  nvme::sqe const command = mine ? load_command(q.sq[at & (q.depth - 1)]) : nvme::sqe{};
  // Each completion gives all slots back: no lane's command may still be unread.
  team::sync();
  if (mine) {
    auto const sq_head = static_cast<std::uint16_t>((first + n) & (q.depth - 1));
    store_completion(
        q.cq[at & (2 * q.depth - 1)],
        nvme::make_cqe(0, static_cast<std::uint16_t>(q.id), sq_head, nvme::cid_of(command),
                       status_for(command, plan.nsid), nvme::phase_at(at, plan.cq_log2)));
  }
  team::sync();
}

__global__ void __launch_bounds__(controller_threads) controller_kernel(controller_plan plan) {
  std::uint32_t const number = base::warp_number();
  if (number >= plan.count) return;
  nvme::queue_pair_place const q = plan.pairs[number];
  std::uint32_t const sq_mask = q.depth - 1, cq_mask = 2 * q.depth - 1;
  std::uint32_t head = 0;   // commands taken, completions stored; wraps freely
  std::uint32_t freed = 0;  // completions that were taken back
  std::uint64_t taken = 0;
  std::uint64_t last_command = device_clock_ns();
  unsigned pause = 0;
  GPUFS_ROLLED
  for (unsigned looks = 1;; ++looks) {
    std::uint32_t n = base::least((load_doorbell(q.sq_doorbell) - head) & sq_mask, base::warp_size);
    if (n != 0 && cq_mask - (head - freed) < n) {
      freed += (load_doorbell(q.cq_doorbell) - freed) & cq_mask;
      n = base::least(n, cq_mask - (head - freed));
    }
    if (n != 0) {
      answer(plan, q, head, n);
      head += n;
      taken += n;
      looks = pause = 0;
      last_command = device_clock_ns();
      continue;
    }
    if (looks % looks_per_check == 0 && is_over(plan, last_command)) break;
    backoff(pause, longest_rest_ns);
  }
  if (team::lane() == 0) plan.taken[number] = taken;
}

}  // namespace

device_controller::device_controller(device_controller_options const& o)
    : answered_queues(o.timeout_ns),
      sqs_(std::uint64_t{o.pairs} * o.depth),
      cqs_(2 * std::uint64_t{o.pairs} * o.depth),
      doorbells_(2 * std::uint64_t{o.pairs}),
      pairs_(o.pairs),
      taken_(o.pairs),
      ended_(1) {
  sqs_.fill_zero();
  cqs_.fill_zero();
  doorbells_.fill_zero();
  taken_.fill_zero();
  ended_.fill_zero();
  std::vector<nvme::queue_pair_place> places;
  for (std::uint64_t i = 0; i < o.pairs; ++i) {
    doorbell_line* const lines = doorbells_.data() + 2 * i;
    places.push_back({static_cast<std::uint32_t>(i + 1), o.depth, sqs_.data() + i * o.depth,
                      cqs_.data() + 2 * i * o.depth, &lines[0].value, &lines[1].value});
  }
  pairs_.copy_from_host(places.data(), places.size());
  set_places(std::move(places));
  load_kernel(controller_kernel);
}

device_controller::~device_controller() {
  try {
    end();
  } catch (...) {  // the next use of the device is told
  }
}

void device_controller::begin() {
  controller_plan const plan{pairs_.data(),
                             static_cast<std::uint32_t>(pairs_.size()),
                             1,
                             static_cast<std::uint32_t>(std::countr_zero(2 * depth())),
                             ended_.data(),
                             taken_.data(),
                             2 * timeout_ns()};
  constexpr unsigned warps = controller_threads / base::warp_size;
  launch({.grid = (plan.count + warps - 1) / warps, .block = controller_threads, .on = &stream_},
         controller_kernel, plan);
}

void device_controller::end() {
  atomic_ref<std::uint32_t, scope::system>(ended_[0]).store(1, memory_order_relaxed);
  stream_.synchronize();
  std::vector<std::uint64_t> taken(taken_.size());
  taken_.copy_to_host(taken.data(), taken.size());
  commands_ = std::accumulate(taken.begin(), taken.end(), std::uint64_t{0});
}

}  // namespace gpufs::apps
