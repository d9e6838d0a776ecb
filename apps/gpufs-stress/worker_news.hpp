// What a worker tells the host while its kernel runs.
#pragma once

#include <apps/gpufs-stress/worker.hpp>

#include <cstdint>

namespace gpufs::stress {

class worker_news {
 public:
  /// @param number  of the filesystem's workers
  __device__ worker_news(stress_job const& job, std::uint32_t number)
      : job_(job), state_(job.states[number]), progress_(job.progress[number]) {}

  /// Tells of an operation, and of the bytes that the calling thread has compared in it. All
  /// threads of the group call. Returns whether the workers are to end.
  template <class Group>
  __device__ bool tell(Group const& group, std::uint64_t compared) {
    // Relaxed: the barrier puts the additions before the load.
    if (compared != 0)
      atomic_ref<std::uint64_t>(state_.bytes).fetch_add(compared, memory_order_relaxed);
    group.sync();
    if (group.thread_rank() == 0) {
      // Relaxed, as the host's: numbers to watch, and a wish.
      store(progress_.bytes, atomic_ref<std::uint64_t>(state_.bytes).load(memory_order_relaxed),
            memory_order_relaxed);
      store(progress_.operations, ++state_.operations, memory_order_relaxed);
      bool const is_to_end =
          atomic_ref<std::uint32_t, scope::system>(*job_.end).load(memory_order_relaxed) != 0;
      bool const has_reported =
          atomic_ref<std::uint32_t>(state_.has_reported).load(memory_order_relaxed) != 0;
      state_.ended = is_to_end || has_reported ? 1 : 0;
    }
    group.sync();
    return state_.ended != 0;
  }

  /// Tells of a gfsync. The group's first thread calls, once it has stored the synced versions.
  __device__ void tell_sync() {
    // Pairs with the watcher's acquire: it looks at the versions after a new number.
    store(progress_.syncs, ++state_.syncs, memory_order_release);
  }

  /// Reports what was wrong. Any thread calls; later reports of any worker are dropped. The worker
  /// ends with this operation.
  __device__ void report(wrong_operation const& what) {
    // Relaxed: tell() has a barrier before it looks.
    atomic_ref<std::uint32_t>(state_.has_reported).store(1, memory_order_relaxed);
    finding& first = *job_.first;
    atomic_ref<std::uint32_t, scope::system> const found(first.found);
    std::uint32_t nothing = finding::none;
    // Relaxed: the claim announces nothing yet.
    if (!found.compare_exchange_strong(nothing, finding::claimed, memory_order_relaxed)) return;
    first.what = what;
    found.store(finding::complete, memory_order_release);  // pairs with site::problem()
  }

 private:
  static __device__ void store(std::uint64_t& number, std::uint64_t value, memory_order order) {
    atomic_ref<std::uint64_t, scope::system>(number).store(value, order);
  }

  stress_job const& job_;
  worker_state& state_;
  worker_progress& progress_;
};

}  // namespace gpufs::stress
