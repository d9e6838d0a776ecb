// Rendezvous of the block scheduler: block barriers, warp operations, converged lanes.
#include <gpufs/device/emulated/block_scheduler.hpp>

namespace gpufs::emulated {

namespace {

// Result of a shuffle that reads a lane which takes no part. The GPU leaves it undefined; here it
// is easy to recognise.
constexpr std::uint64_t undefined_value = 0xbadc0ffee0ddf00d;

// A call in a header has a copy of its place in every translation unit. Instances of one template
// are different code, so their places differ.
// By value: ThreadSanitizer checks the functions that are called here. So they read this thread's
// stack, not the other thread's state. A thread that has returned may run this, and nothing orders
// its reads before the end of the launch.
GPUFS_NO_TSAN bool same_place(place a, place b) {
  if (__builtin_memcmp(&a, &b, sizeof(place)) == 0) return true;
  return a.line() == b.line() && a.column() == b.column() &&
         __builtin_strcmp(a.file_name(), b.file_name()) == 0 &&
         __builtin_strcmp(a.function_name(), b.function_name()) == 0;
}

}  // namespace

GPUFS_NO_TSAN void block_scheduler::require_same_place(thread const& there, thread const& here) {
  if (!same_place(there.where, here.where))
    give_up({.what = verdict::kind::mismatch, .one = &here, .other = &there});
}

GPUFS_NO_TSAN int block_scheduler::barrier(reduction what, bool predicate, place const& where) {
  thread& t = *running_;
  t.where = where;
  t.has_place = true;
  t.now = state::in_barrier;
  unsigned const turn = barrier_generation_ & 1;
  if (barrier_arrived_ == 0) {
    barrier_first_ = &t;
    barrier_true_ = 0;
  }
  require_same_place(*barrier_first_, t);
  ++barrier_arrived_;
  barrier_true_ += predicate ? 1 : 0;
  order_before(&barrier_tag_[turn]);
  if (barrier_arrived_ == thread_count_) {
    int const count = int(barrier_true_);
    barrier_result_[turn] = what == reduction::count ? count
                            : what == reduction::any ? count != 0
                                                     : barrier_true_ == thread_count_;
    barrier_arrived_ = 0;
    ++barrier_generation_;
    for (unsigned rank = 0; rank < thread_count_; ++rank) make_able(thread_array_[rank]);
  }
  switch_to_next();
  order_after(&barrier_tag_[turn]);
  return barrier_result_[turn];
}

GPUFS_NO_TSAN std::uint64_t block_scheduler::warp(warp_operation what, unsigned mask,
                                                  std::uint64_t value, unsigned source,
                                                  place const& where) {
  thread& t = *running_;
  unsigned const lane_bit = 1u << t.identity.lane;
  if ((mask & lane_bit) == 0)
    fail("a warp operation was called by a lane that its mask does not name", where);
  unsigned const first_rank = t.identity.rank - t.identity.lane;
  thread* const lanes = thread_array_ + first_rank;
  warp_state& w = warps_[first_rank / warp_size];
  t.now = state::in_warp_operation;
  t.operation = what;
  t.mask = mask;
  t.value = value;
  t.source = source;
  t.where = where;
  t.has_place = true;
  // Lanes of one operation share a tag. A group with an overlapping mask, which waits for a lane
  // that is not there yet, has another.
  unsigned with_same_mask = w.waiting & mask;
  while (with_same_mask != 0 && lanes[__builtin_ctz(with_same_mask)].mask != mask)
    with_same_mask &= with_same_mask - 1;
  if (with_same_mask != 0) {
    thread const& there = lanes[__builtin_ctz(with_same_mask)];
    require_same_place(there, t);
    t.tag = there.tag;
  } else {
    t.tag = w.next_tag;
    w.next_tag = (w.next_tag + 1) % warp_tags;
  }
  unsigned const tag = t.tag;
  if (what == warp_operation::sync) order_before(&w.tag[tag]);
  w.waiting |= lane_bit;
  try_complete_warp(w, first_rank, mask);
  switch_to_next();
  if (what == warp_operation::sync) order_after(&w.tag[tag]);
  return t.value;
}

// Lets the lanes in `mask` go once all of them that have not returned from the kernel are at this
// operation.
GPUFS_NO_TSAN void block_scheduler::try_complete_warp(warp_state& w, unsigned first_rank,
                                                      unsigned mask) {
  unsigned const participants = mask & ~w.returned;
  if ((w.waiting & participants) != participants || participants == 0) return;
  thread* const lanes = thread_array_ + first_rank;
  for (unsigned left = participants; left != 0; left &= left - 1) {
    if (lanes[__builtin_ctz(left)].mask != mask) return;
  }
  compute_results(lanes[__builtin_ctz(participants)].operation, lanes, participants);
  w.waiting &= ~participants;
  for (unsigned left = participants; left != 0; left &= left - 1)
    make_able(lanes[__builtin_ctz(left)]);
}

GPUFS_NO_TSAN void block_scheduler::compute_results(warp_operation what, thread* lanes,
                                                    unsigned participants) {
  if (what == warp_operation::sync) return;
  std::uint64_t value[warp_size];
  unsigned ballot = 0;
  for (unsigned left = participants; left != 0; left &= left - 1) {
    unsigned const lane = unsigned(__builtin_ctz(left));
    value[lane] = lanes[lane].value;
    ballot |= unsigned(value[lane] != 0) << lane;
  }
  for (unsigned left = participants; left != 0; left &= left - 1) {
    unsigned const lane = unsigned(__builtin_ctz(left));
    std::uint64_t& result = lanes[lane].value;
    unsigned const source = lanes[lane].source;
    switch (what) {
      case warp_operation::sync: break;
      case warp_operation::shuffle:
        result = (participants >> source & 1u) != 0 ? value[source] : undefined_value;
        break;
      case warp_operation::ballot: result = ballot; break;
      case warp_operation::any: result = ballot != 0; break;
      case warp_operation::all: result = ballot == participants; break;
      case warp_operation::match_any:
        result = 0;
        for (unsigned others = participants; others != 0; others &= others - 1) {
          unsigned const other = unsigned(__builtin_ctz(others));
          result |= std::uint64_t(value[other] == value[lane]) << other;
        }
        break;
    }
  }
}

GPUFS_NO_TSAN unsigned block_scheduler::converged(place const& where) {
  thread& t = *running_;
  t.where = where;
  t.has_place = true;
  t.now = state::in_converged;
  ++converged_count_;
  switch_to_next();
  return unsigned(t.value);
}

// No other thread can run, so threads in converged() go on. A group is the lanes of a warp at the
// same place.
GPUFS_NO_TSAN void block_scheduler::resolve_converged() {
  converged_count_ = 0;
  for (unsigned first_rank = 0; first_rank < thread_count_; first_rank += warp_size) {
    thread* const lanes = thread_array_ + first_rank;
    unsigned const count =
        thread_count_ - first_rank < warp_size ? thread_count_ - first_rank : warp_size;
    unsigned standing = 0;
    for (unsigned lane = 0; lane < count; ++lane)
      standing |= unsigned(lanes[lane].now == state::in_converged) << lane;
    while (standing != 0) {
      thread const& leader = lanes[__builtin_ctz(standing)];
      unsigned group = 0;
      for (unsigned left = standing; left != 0; left &= left - 1) {
        unsigned const lane = unsigned(__builtin_ctz(left));
        if (same_place(lanes[lane].where, leader.where)) group |= 1u << lane;
      }
      if (split_ != 0 && random_below(split_) == 0) {
        unsigned const part = group & random_below(~0u);
        if (part != 0) group = part;
      }
      for (unsigned left = group; left != 0; left &= left - 1) {
        thread& t = lanes[__builtin_ctz(left)];
        t.value = group;
        make_able(t);
      }
      standing &= ~group;
    }
  }
}

}  // namespace gpufs::emulated
