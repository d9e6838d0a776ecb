// Turns of the block scheduler: start and end of a block, and the choice of the next thread.
#include <gpufs/device/emulated/block_scheduler.hpp>

#include <time.h>

#include <atomic>
#include <cstring>
#include <new>

#include <sched.h>

namespace gpufs::emulated {

constinit thread_local thread_identity const* running_thread = nullptr;
constinit thread_local block_identity running_block{};
constinit thread_local unsigned atomics_until_preemption = 0;

namespace {

constinit thread_local block_scheduler* running_scheduler = nullptr;

// ThreadSanitizer takes 0.9 MiB and half a millisecond per fiber, and stops the program beyond 8128
// fibers. So a scheduler always keeps the state of its first few. Beyond them there is a supply for
// all schedulers, from which they take for good.
constexpr unsigned always_kept = 64;
std::atomic<unsigned> spare_states{1536};  // relaxed: a number, it publishes nothing

bool take_spare_state() {
  auto left = spare_states.load(std::memory_order_relaxed);
  while (left != 0 &&
         !spare_states.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
  }
  return left != 0;
}

constexpr std::align_val_t dynamic_shared_alignment{128};

// The block's dynamic shared memory, with its alignment. It is exactly as large as requested, so
// AddressSanitizer sees its end.
struct dynamic_shared_memory {
  explicit dynamic_shared_memory(std::uint64_t bytes)
      : data(bytes == 0
                 ? nullptr
                 : static_cast<std::byte*>(::operator new(bytes, dynamic_shared_alignment))) {
    // Nonzero, so that code which relies on zeros fails.
    if (data != nullptr) std::memset(data, 0xcd, bytes);
  }
  ~dynamic_shared_memory() {
    if (data != nullptr) ::operator delete(data, dynamic_shared_alignment);
  }
  dynamic_shared_memory(dynamic_shared_memory const&) = delete;
  dynamic_shared_memory& operator=(dynamic_shared_memory const&) = delete;
  std::byte* data;
};

}  // namespace

GPUFS_NO_TSAN block_scheduler& block_scheduler::current() { return *running_scheduler; }

std::string block_scheduler::run(block_task const& task) {
  prepare_threads(task);
  dynamic_shared_memory const dynamic_shared(task.dynamic_shared_bytes);
  reset(task);
  running_block = {task.index, task.block_size, task.grid_size, dynamic_shared.data};
  running_scheduler = this;
  // Blocks on one OS thread use the same shared memory one after the other. So all accesses of one
  // come before those of the next.
  order_before(&start_tag_);
  thread& first = take_next();
  running_ = &first;
  running_thread = &first.identity;
  fiber::switch_over(os_thread_, first.context);
  std::string const failure = report();
  if (verdict_.what != verdict::kind::none) abandon_threads();
  running_thread = nullptr;
  order_after(&end_tag_);
  return failure;
}

void block_scheduler::prepare_threads(block_task const& task) {
  unsigned const count = task.block_size.x * task.block_size.y * task.block_size.z;
  if (threads_ == nullptr || stack_bytes_ != task.stack_bytes) {
    threads_ = std::make_unique<thread[]>(max_block_threads);
    thread_array_ = threads_.get();
    stack_bytes_ = task.stack_bytes;
    started_ = 0;
  }
  for (; started_ < count; ++started_) {
    fiber& context = threads_[started_].context;
    if (!context.has_stack()) context.allocate_stack(stack_bytes_, started_);
    context.start(&thread_main, nullptr);
  }
  os_thread_.prepare();
  for (unsigned rank = 0; rank < count; ++rank) threads_[rank].context.prepare();
}

GPUFS_NO_TSAN void block_scheduler::reset(block_task const& task) {
  dim3 const size = task.block_size;
  thread_count_ = size.x * size.y * size.z;
  task_ = &task;
  able_count_ = yielded_count_ = converged_count_ = returned_count_ = 0;
  for (unsigned rank = 0; rank < thread_count_; ++rank) {
    thread& t = thread_array_[rank];
    t.identity = {
        {rank % size.x, rank / size.x % size.y, rank / (size.x * size.y)}, rank, rank % warp_size};
    t.has_place = false;
    make_able(t);
  }
  for (unsigned w = 0; w * warp_size < thread_count_; ++w) {
    unsigned const lanes = thread_count_ - w * warp_size;
    warps_[w].waiting = 0;
    warps_[w].returned = lanes >= warp_size ? 0 : ~0u << lanes;
  }
  barrier_arrived_ = 0;
  idle_rounds_ = 0;
  random_state_ = task.seed;
  preempt_ = task.preempt;
  split_ = task.split;
  atomics_until_preemption = preempt_ == 0 ? ~0u : 1 + random_below(2 * preempt_ - 1);
  abandoning_ = false;
  verdict_ = {};
}

block_scheduler::~block_scheduler() { spare_states.fetch_add(spares_, std::memory_order_relaxed); }

void block_scheduler::trim_sanitizer_state() {
  while (always_kept + spares_ < started_ && take_spare_state()) ++spares_;
  for (unsigned rank = always_kept + spares_; rank < started_; ++rank)
    threads_[rank].context.release_sanitizer_state();
}

// Switches to each thread once more, only to leave its stack for good. The sanitizers then know
// that it has ended.
void block_scheduler::abandon_threads() {
  abandoning_ = true;
  for (unsigned rank = 0; rank < thread_count_; ++rank) {
    thread& t = threads_[rank];
    // Threads that returned from the kernel stand in thread_main, where the next block needs them.
    if (t.now == state::returned || &t == verdict_.one) continue;
    running_ = &t;
    fiber::switch_over(os_thread_, t.context);
  }
  for (unsigned rank = 0; rank < started_; ++rank) {
    threads_[rank].context.release_sanitizer_state();
    threads_[rank].context.start(&thread_main, nullptr);
  }
}

GPUFS_NO_TSAN void block_scheduler::thread_main(void*) {
  block_scheduler& self = current();
  for (;;) {
    if (self.abandoning_) self.leave_for_good();
    order_after(&self.start_tag_);
    (*self.task_->thread_body)();
    order_before(&self.end_tag_);
    self.thread_returned();
  }
}

GPUFS_NO_TSAN void block_scheduler::thread_returned() {
  thread& t = *running_;
  t.now = state::returned;
  ++returned_count_;
  unsigned const first_rank = t.identity.rank - t.identity.lane;
  warp_state& w = warps_[first_rank / warp_size];
  w.returned |= 1u << t.identity.lane;
  // Other lanes may have waited only for this thread.
  for (unsigned left = w.waiting; left != 0; left &= left - 1) {
    unsigned const lane = unsigned(__builtin_ctz(left));
    if ((w.waiting >> lane & 1u) != 0)
      try_complete_warp(w, first_rank, thread_array_[first_rank + lane].mask);
  }
  if (returned_count_ == thread_count_) {
    fiber::switch_over(t.context, os_thread_);
  } else {
    switch_to_next();
  }
}

GPUFS_NO_TSAN void block_scheduler::make_able(thread& t) {
  t.now = state::able;
  able_[able_count_++] = std::uint16_t(t.identity.rank);
}

GPUFS_NO_TSAN block_scheduler::thread& block_scheduler::take_next() {
  unsigned const pick = random_below(able_count_);
  unsigned const rank = able_[pick];
  able_[pick] = able_[--able_count_];
  return thread_array_[rank];
}

// Switches to another thread. The caller has noted why it waits.
GPUFS_NO_TSAN void block_scheduler::switch_to_next() {
  while (able_count_ == 0) {
    if (converged_count_ != 0) {
      resolve_converged();
    } else if (yielded_count_ != 0) {
      give_core_away();
      for (unsigned i = 0; i < yielded_count_; ++i) able_[i] = yielded_[i];
      able_count_ = yielded_count_;
      yielded_count_ = 0;
    } else {
      give_up({.what = verdict::kind::standstill, .one = running_});
    }
  }
  thread& from = *running_;
  thread& next = take_next();
  if (&next == &from) return;
  running_ = &next;
  running_thread = &next.identity;
  fiber::switch_over(from.context, next.context);
  if (abandoning_) leave_for_good();
}

GPUFS_NO_TSAN void block_scheduler::yield_waiting(bool first) {
  if (first) idle_rounds_ = 0;
  yielded_[yielded_count_++] = std::uint16_t(running_->identity.rank);
  switch_to_next();
}

GPUFS_NO_TSAN void block_scheduler::preempt() {
  atomics_until_preemption = preempt_ == 0 ? ~0u : 1 + random_below(2 * preempt_ - 1);
  if (preempt_ == 0) return;
  make_able(*running_);
  switch_to_next();
}

// Every thread that can run waits for another block or the host, which may need this core.
GPUFS_NO_TSAN void block_scheduler::give_core_away() {
  // Relaxed: no data of the failed block is read. ThreadSanitizer may see the last code of a thread
  // here as unordered with the end of the launch. So this is a builtin, which it does not check
  // here.
  if (__atomic_load_n(task_->abandoned, __ATOMIC_RELAXED))
    give_up({.what = verdict::kind::abandoned, .one = running_});
  constexpr unsigned yields = 32;
  constexpr unsigned longest = 100'000;  // nanoseconds
  if (idle_rounds_++ < yields) {
    sched_yield();
    return;
  }
  unsigned const doublings = idle_rounds_ - yields;
  timespec const nap{
      0, doublings >= 17 || (1000u << doublings) > longest ? longest : 1000u << doublings};
  nanosleep(&nap, nullptr);
}

GPUFS_NO_TSAN void block_scheduler::fail(char const* why, place const& where) {
  running_->where = where;
  running_->has_place = true;
  give_up({.what = verdict::kind::refused, .one = running_, .why = why});
}

GPUFS_NO_TSAN void block_scheduler::give_up(verdict const& v) {
  verdict_ = v;
  leave_for_good();
}

GPUFS_NO_TSAN void block_scheduler::leave_for_good() {
  order_before(&end_tag_);
  fiber::switch_over(running_->context, os_thread_, true);
  __builtin_unreachable();
}

GPUFS_NO_TSAN std::uint32_t block_scheduler::random_below(std::uint32_t bound) {
  random_state_ = random_state_ * 6364136223846793005u + 1442695040888963407u;
  return std::uint32_t((random_state_ >> 32) * bound >> 32);
}

int block_barrier(reduction what, bool predicate, place const& where) {
  return block_scheduler::current().barrier(what, predicate, where);
}
std::uint64_t warp_rendezvous(warp_operation what, unsigned mask, std::uint64_t value,
                              unsigned source, place const& where) {
  return block_scheduler::current().warp(what, mask, value, source, where);
}
unsigned converged_lanes(place const& where) { return block_scheduler::current().converged(where); }
void yield_waiting(bool first) { block_scheduler::current().yield_waiting(first); }
void fail_launch(char const* why, place const& where) {
  block_scheduler::current().fail(why, where);
}
void preempt() { block_scheduler::current().preempt(); }

}  // namespace gpufs::emulated
