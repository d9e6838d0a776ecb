// Dispatches the blocks of launches to OS threads.
#include <gpufs/device/emulated/block_scheduler.hpp>
#include <gpufs/device/emulated/executor.hpp>

#include <algorithm>
#include <exception>
#include <mutex>
#include <set>

#include <sys/prctl.h>

namespace gpufs::emulated {

namespace {

// The mixer of splitmix64: neighbouring inputs give unrelated outputs.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void run_blocks(block_scheduler& scheduler, kernel_launch& launch) {
  // Relaxed: only the number is read. The workers' mutex has published the launch. The same holds
  // for `failed`.
  for (std::uint64_t i;
       (i = launch.next_block.fetch_add(1, std::memory_order_relaxed)) < launch.block_count();) {
    if (__atomic_load_n(&launch.failed, __ATOMIC_RELAXED)) break;
    block_task const task{
        .thread_body = &launch.thread_body,
        .index = {unsigned(i % launch.grid.x), unsigned(i / launch.grid.x % launch.grid.y),
                  unsigned(i / launch.grid.x / launch.grid.y)},
        .block_size = launch.block,
        .grid_size = launch.grid,
        .dynamic_shared_bytes = launch.dynamic_shared_bytes,
        .seed = mixed(mixed(mixed(launch.how.seed) ^ launch.number) ^ i),
        .preempt = launch.how.preempt,
        .split = launch.how.split,
        .stack_bytes = launch.how.stack_bytes,
        .abandoned = &launch.failed,
    };
    std::string failure;
    try {
      failure = scheduler.run(task);
    } catch (std::exception const& error) {
      failure = error.what();
    }
    if (!failure.empty()) {
      std::lock_guard const lock(launch.mutex);
      if (launch.failure.empty()) launch.failure = std::move(failure);
      __atomic_store_n(&launch.failed, true, __ATOMIC_RELAXED);
    }
  }
  scheduler.trim_sanitizer_state();
}

/// Numbers of all workers that there have been. They work until the process ends.
class worker_numbers {
 public:
  void add(pid_t thread) {
    std::lock_guard const lock(mutex_);
    numbers_.insert(thread);
  }
  bool has(pid_t thread) noexcept {
    std::lock_guard const lock(mutex_);
    return numbers_.contains(thread);
  }

 private:
  std::mutex mutex_;
  std::set<pid_t> numbers_;
};

// Never freed: other threads may ask while the process ends.
worker_numbers& numbers_of_workers() {
  static auto* const all = new worker_numbers;
  return *all;
}

}  // namespace

std::shared_ptr<block_workers> block_workers::shared() {
  static std::shared_ptr<block_workers> const workers{new block_workers,
                                                      delete_at_home<block_workers>{}};
  return workers;
}

block_workers::~block_workers() {
  {
    std::lock_guard const lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void block_workers::run(kernel_launch& launch) {
  auto const residents = unsigned(std::min<std::uint64_t>(launch.how.blocks, launch.block_count()));
  launch.workers_left = residents;
  {
    std::lock_guard const lock(mutex_);
    while (threads_.size() < busy_ + queue_.size() + residents)
      threads_.emplace_back([this] { work(); });
    queue_.insert(queue_.end(), residents, &launch);
  }
  wake_.notify_all();
  std::unique_lock lock(launch.mutex);
  launch.all_left.wait(lock, [&] { return launch.workers_left == 0; });
}

bool block_workers::has(pid_t thread) noexcept { return numbers_of_workers().has(thread); }

void block_workers::work() {
  // A wait's naps start at a microsecond. By default the kernel may add fifty to each.
  prctl(PR_SET_TIMERSLACK, 1);
  block_scheduler scheduler;
  numbers_of_workers().add(::gettid());
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    kernel_launch& launch = *queue_.front();
    queue_.pop_front();
    ++busy_;
    lock.unlock();
    run_blocks(scheduler, launch);
    lock.lock();
    --busy_;
    // Hold the launch's mutex to the end. Once it is free with no worker left, the launch may be
    // destroyed.
    std::lock_guard const launch_lock(launch.mutex);
    if (--launch.workers_left == 0) launch.all_left.notify_one();
  }
}

}  // namespace gpufs::emulated
