#include <python/src/frees.hpp>

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
  unsigned running = 0;
  bool is_freeing = false;  // by one thread, without the mutex
  std::vector<std::shared_ptr<void const>> memory;

  // Kernels start behind a free, so none that waits for the host runs meanwhile.
  void free_if_quiet(std::unique_lock<std::mutex>& lock) noexcept {
    while (running == 0 && !is_freeing && !memory.empty()) {
      is_freeing = true;
      auto all = std::exchange(memory, {});
      lock.unlock();
      all.clear();
      lock.lock();
      is_freeing = false;
      freed.notify_all();
    }
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

void free_between_transfers(std::shared_ptr<void const> memory) noexcept {
  kept_memory& kept = kept_here();
  std::unique_lock lock(kept.mutex);
  try {
    kept.memory.push_back(std::move(memory));
  } catch (std::bad_alloc const&) {  // freed at once, behind the kernels
  }
  kept.free_if_quiet(lock);
}

running_kernel::running_kernel() : kept_(kept_here()) {
  std::unique_lock lock(kept_.mutex);
  kept_.freed.wait(lock, [&] { return !kept_.is_freeing; });
  ++kept_.running;
}

running_kernel::~running_kernel() {
  if (kept_.process != ::getpid()) return;  // the kernel is the parent's
  std::unique_lock lock(kept_.mutex);
  --kept_.running;
  kept_.free_if_quiet(lock);
}

}  // namespace gpufs::python
