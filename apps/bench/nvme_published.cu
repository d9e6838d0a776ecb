// The protocol for queue pairs that the BaM paper publishes, written from its description, on the
// same queues and with the same stores of entries and doorbells as ours.
//
// A thread draws a ticket, which is a slot and a turn. It waits for its turn, stores the entry and
// marks it. Threads with marked entries try for the lock of the tail; the holder moves it over all
// marked entries and rings. Each thread then looks through the completion queue, from its head on,
// for the entry of its own command. It marks that entry, and tries for the lock of the head until
// the head is behind it. The holder moves the head over all marked entries, rings, and gives turns
// to the slots that the controller has taken. A slot also waits until its thread has seen its mark
// gone: else that thread would take the next mark for its own.
//
// CIDs are the low bits of tickets. The paper's code has an allocator for them.
#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/nvme/entry_access.hpp>

#include <apps/bench/nvme_commands.hpp>
#include <apps/bench/nvme_first_launch.hpp>
#include <apps/common/seconds_since.hpp>

#include <bit>
#include <cerrno>
#include <chrono>

namespace gpufs::apps {

namespace {

template <class T>
using device_word = atomic_ref<T, scope::device>;

/// Words of a pair in GPU memory, each on a line of its own.
struct published_words {
  alignas(128) std::uint32_t ticket;
  alignas(128) std::uint32_t tail;
  alignas(128) std::uint32_t tail_lock;
  alignas(128) std::uint32_t sq_head;
  alignas(128) std::uint32_t head;
  alignas(128) std::uint32_t head_lock;
  alignas(128) std::uint64_t doorbells;  ///< the holders of the locks count
  std::uint64_t head_doorbells;
};

/// A pair of D = 2^log2 submission entries and 2 D completion entries.
struct published_pair {
  nvme::queue_pair_place place;
  published_words* words;
  std::uint32_t* turns;  ///< D: twice the laps of a slot, see carry_out()
  std::uint32_t* marks;  ///< D: the entry is complete, and no doorbell was rung for it
  std::uint32_t* taken;  ///< 2 D: the completion has been found
  std::uint32_t log2;
};

struct published_plan {
  published_pair const* pairs;
  std::uint32_t count;
  std::uint32_t nsid;
  std::uint32_t rounds;
  std::uint64_t timeout_ns;  ///< of the kernel
};

/// Pauses of a wait until a time that all waits of a thread share.
struct bounded_wait {
  std::uint64_t start;
  std::uint64_t timeout_ns;
  unsigned pause = 0;

  /// Pauses. True: the wait must end.
  __device__ bool is_over() {
    backoff(pause, 256);
    return device_clock_ns() - start > timeout_ns;
  }
};

__device__ bool try_take(std::uint32_t& lock) {
  device_word<std::uint32_t> const word(lock);
  return word.load(memory_order_relaxed) == 0 && word.exchange(1, memory_order_acquire) == 0;
}
__device__ void give_back(std::uint32_t& lock) {
  device_word<std::uint32_t>(lock).store(0, memory_order_release);
}
__device__ std::uint32_t load(std::uint32_t& word) {
  return device_word<std::uint32_t>(word).load(memory_order_relaxed);
}
/// Takes a mark away. False: there is none.
__device__ bool take_mark(std::uint32_t& mark) {
  // Pairs with the store of the mark.
  return device_word<std::uint32_t>(mark).exchange(0, memory_order_acquire) != 0;
}

__device__ void try_move_tail(published_pair const& q) {
  published_words& w = *q.words;
  if (!try_take(w.tail_lock)) return;
  std::uint32_t const entries = 1u << q.log2;
  std::uint32_t const first = load(w.tail);
  std::uint32_t tail = first;
  // One entry stays empty, else a full queue would look like an empty one.
  while (tail - load(w.sq_head) < entries - 1 && take_mark(q.marks[tail & (entries - 1)])) ++tail;
  if (tail != first) {
    nvme::ring(q.place.sq_doorbell, tail & (entries - 1));
    ++w.doorbells;
    device_word<std::uint32_t>(w.tail).store(tail, memory_order_relaxed);
  }
  give_back(w.tail_lock);
}

__device__ void try_move_head(published_pair const& q) {
  published_words& w = *q.words;
  if (!try_take(w.head_lock)) return;
  std::uint32_t const sq_mask = (1u << q.log2) - 1, cq_mask = (2u << q.log2) - 1;
  std::uint32_t const first = load(w.head);
  std::uint32_t head = first;
  while (take_mark(q.taken[head & cq_mask])) ++head;
  if (head != first) {
    std::uint32_t const to = nvme::sq_head_of(nvme::load_entry(q.place.cq[(head - 1) & cq_mask]));
    std::uint32_t sq_head = load(w.sq_head);
    for (; (sq_head & sq_mask) != to; ++sq_head)
      device_word<std::uint32_t>(q.turns[sq_head & sq_mask]).fetch_add(1, base::after_settling);
    device_word<std::uint32_t>(w.sq_head).store(sq_head, memory_order_relaxed);
    nvme::ring(q.place.cq_doorbell, head & cq_mask);
    ++w.head_doorbells;
    device_word<std::uint32_t>(w.head).store(head, memory_order_relaxed);
  }
  give_back(w.head_lock);
}

/// Looks for the completion of a command. True: it is entry `at`.
__device__ bool find_completion(published_pair const& q, std::uint16_t cid, std::uint32_t& at,
                                nvme::cqe& entry) {
  std::uint32_t const entries = 2u << q.log2;
  std::uint32_t const head = load(q.words->head);
  for (std::uint32_t i = 0; i < entries; ++i) {
    at = head + i;
    entry = nvme::load_entry(q.place.cq[at & (entries - 1)]);
    if (nvme::phase_of(entry.dw[3]) != nvme::phase_at(at, q.log2 + 1)) return false;
    if (nvme::cid_of(entry) == cid) return true;
  }
  return false;
}

/// One command of the calling thread. Returns 0, -EIO, or -ETIMEDOUT.
__device__ std::int32_t carry_out(published_pair const& q, nvme::sqe const& command,
                                  bounded_wait wait) {
  std::uint32_t const ticket =
      device_word<std::uint32_t>(q.words->ticket).fetch_add(1, memory_order_relaxed);
  std::uint32_t const slot = ticket & ((1u << q.log2) - 1);
  // Each lap adds twice: when its thread has left the slot, and when the controller has taken the
  // entry. Pairs with try_move_head().
  device_word<std::uint32_t> const turn(q.turns[slot]);
  while (turn.load(memory_order_acquire) != 2 * (ticket >> q.log2))
    if (wait.is_over()) return -ETIMEDOUT;

  auto const cid = static_cast<std::uint16_t>(ticket);
  nvme::sqe entry = command;
  entry.dw[0] = (entry.dw[0] & 0xffff) | std::uint32_t{cid} << 16;
  nvme::store_entry(q.place.sq[slot], entry);
  device_word<std::uint32_t>(q.marks[slot]).store(1, base::after_settling);
  wait.pause = 0;
  for (try_move_tail(q); load(q.marks[slot]) != 0; try_move_tail(q))
    if (wait.is_over()) return -ETIMEDOUT;
  turn.fetch_add(1, base::after_settling);

  std::uint32_t at = 0;
  nvme::cqe answer;
  wait.pause = 0;
  while (!find_completion(q, cid, at, answer))
    if (wait.is_over()) return -ETIMEDOUT;
  device_word<std::uint32_t>(q.taken[at & ((2u << q.log2) - 1)]).store(1, base::after_settling);
  wait.pause = 0;
  for (try_move_head(q); static_cast<std::int32_t>(load(q.words->head) - at) <= 0; try_move_head(q))
    if (wait.is_over()) return -ETIMEDOUT;
  return nvme::status_of(answer) == 0 ? 0 : -EIO;
}

__global__ void __launch_bounds__(most_command_threads, 1)
    published_kernel(published_plan plan, command_report* report) {
  published_pair const& q = plan.pairs[base::warp_number() % plan.count];
  bounded_wait const wait{device_clock_ns(), plan.timeout_ns};
  std::int32_t error = 0;
  std::uint32_t done = 0;
  for (; done < plan.rounds && error == 0; done += error == 0 ? 1 : 0)
    error = carry_out(q, nvme::make_flush(0, plan.nsid), wait);
  std::int64_t none = 0;
  if (error != 0)
    device_word<std::int64_t>(report->error)
        .compare_exchange_strong(none, error, memory_order_relaxed);
  device_word<std::uint64_t>(report->answered).fetch_add(done, memory_order_relaxed);
}

/// GPU memory of the pairs of a run.
class published_queues {
 public:
  explicit published_queues(answered_queues const& on)
      : words_(on.places().size()),
        counters_(4 * on.places().size() * on.depth()),
        pairs_(on.places().size()) {
    words_.fill_zero();
    counters_.fill_zero();
    std::uint64_t const depth = on.depth();
    std::vector<published_pair> pairs;
    for (auto const& place : on.places()) {
      std::uint32_t* const turns = counters_.data() + 4 * depth * pairs.size();
      pairs.push_back({place, words_.data() + pairs.size(), turns, turns + depth, turns + 2 * depth,
                       static_cast<std::uint32_t>(std::countr_zero(depth))});
    }
    pairs_.copy_from_host(pairs.data(), pairs.size());
  }

  [[nodiscard]] published_pair const* data() const { return pairs_.data(); }

  void count_doorbells(command_report& to) const {
    std::vector<published_words> words(words_.size());
    words_.copy_to_host(words.data(), words.size());
    for (auto const& each : words) {
      to.doorbells += each.doorbells;
      to.head_doorbells += each.head_doorbells;
    }
  }

 private:
  buffer<published_words> words_;
  buffer<std::uint32_t> counters_;
  buffer<published_pair> pairs_;
};

}  // namespace

command_run send_flushes_published(answered_queues& on, command_shape const& shape) {
  published_queues const queues(on);
  buffer<command_report> reports(1);
  reports.fill_zero();
  load_kernel(published_kernel);
  published_plan const plan{queues.data(), static_cast<std::uint32_t>(on.places().size()), 1,
                            shape.rounds, on.timeout_ns()};
  run_once_alone(published_kernel, plan, reports.data());
  answers given(on);
  auto const start = std::chrono::steady_clock::now();
  launch(published_kernel, shape.blocks, shape.threads, plan, reports.data());
  this_thread_stream().synchronize();
  double const seconds = seconds_since(start);
  given.end();
  command_report report;
  reports.copy_to_host(&report, 1);
  queues.count_doorbells(report);
  return checked_run("published protocol", on, shape, report, seconds);
}

}  // namespace gpufs::apps
