#include <python/src/frees.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

namespace gpufs::python {

struct kept_memory {
  pid_t const process = ::getpid();
  std::mutex mutex;
  std::condition_variable freed;
  std::vector<running_kernel*> running;
  bool is_freeing = false;  // by one thread, without the mutex
  std::vector<std::shared_ptr<void const>> memory;
  std::uint64_t bytes = 0;  // of it

  // Kernels start behind a free, so none that waits for the host runs meanwhile.
  void free_all(std::unique_lock<std::mutex>& lock) noexcept {
    is_freeing = true;
    auto all = std::exchange(memory, {});
    bytes = 0;
    lock.unlock();
    all.clear();
    lock.lock();
    is_freeing = false;
    freed.notify_all();
  }

  void free_if_due(std::unique_lock<std::mutex>& lock) noexcept {
    while (!is_freeing && !memory.empty() &&
           (running.empty() || (bytes > most_kept_bytes && await_kernels())))
      free_all(lock);
  }

  // With the mutex, so no other kernel starts, and no event is destroyed. False: one is being
  // launched. That may wait for a declaration of this thread, so nobody waits for it: it frees
  // itself what is too much.
  bool await_kernels() noexcept {
    if (std::ranges::any_of(running, [](auto const* k) { return k->ended_ == nullptr; }))
      return false;
    for (auto const* kernel : running) {
      try {
        kernel->ended_->synchronize();
      } catch (device_error const&) {  // it has ended, and its transfer tells of it
      }
    }
    return true;
  }
};

namespace {

// A child of fork() may find the mutex locked, and kernels counted that are the parent's. So it
// makes one of its own. None is ever destroyed.
std::atomic<kept_memory*> of_process{new kept_memory};

kept_memory& kept_here() {
  auto* found = of_process.load();
  while (found->process != ::getpid()) {
    auto* const own = new kept_memory;
    if (of_process.compare_exchange_strong(found, own)) return *own;
    delete own;  // another thread was first
  }
  return *found;
}

}  // namespace

void free_between_transfers(std::shared_ptr<void const> memory, std::uint64_t bytes) noexcept {
  kept_memory& kept = kept_here();
  std::unique_lock lock(kept.mutex);
  try {
    kept.memory.push_back(std::move(memory));
    kept.bytes += bytes;
  } catch (std::bad_alloc const&) {  // freed at once, behind the kernels
  }
  kept.free_if_due(lock);
}

void free_kept() noexcept {
  kept_memory& kept = kept_here();
  std::unique_lock lock(kept.mutex);
  kept.freed.wait(lock, [&] { return !kept.is_freeing; });
  if (!kept.memory.empty() && kept.await_kernels()) kept.free_all(lock);
}

running_kernel::running_kernel() : kept_(kept_here()) {
  std::unique_lock lock(kept_.mutex);
  kept_.freed.wait(lock, [&] { return !kept_.is_freeing; });
  kept_.running.push_back(this);
}

void running_kernel::launched(event const& ended) noexcept {
  std::unique_lock lock(kept_.mutex);
  ended_ = &ended;
  kept_.free_if_due(lock);
}

running_kernel::~running_kernel() {
  if (kept_.process != ::getpid()) return;  // the kernel is the parent's
  std::unique_lock lock(kept_.mutex);
  std::erase(kept_.running, this);
  kept_.free_if_due(lock);
}

}  // namespace gpufs::python
