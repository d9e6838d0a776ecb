// The emulated device: settings, OS threads for blocks, and the launches that they run.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/device/emulated/settings.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace gpufs::emulated {

/// A kernel launch, from launch() to the end of its last block.
struct kernel_launch {
  std::function<void()> thread_body;
  dim3 grid;
  dim3 block;
  std::uint64_t dynamic_shared_bytes = 0;
  std::uint64_t number = 0;  ///< counts launches since configure()
  settings how;

  [[nodiscard]] std::uint64_t block_count() const {
    return std::uint64_t(grid.x) * grid.y * grid.z;
  }

  std::atomic<std::uint64_t> next_block{0};
  bool failed = false;  ///< accessed atomically
  std::mutex mutex;
  std::condition_variable all_left;
  unsigned workers_left = 0;  // guarded by mutex, as is failure
  std::string failure;        // of the first block that failed
};

/// Gives a launch the current settings and its number.
void number_launch(kernel_launch& launch);

/// Deletes an object that has threads, in the process that made it. A child of fork() has a copy of
/// the object but not the threads, for which the destructor would wait. It leaves the copy alone.
template <class T>
class delete_at_home {
 public:
  void operator()(T* object) const {
    if (process_ == ::getpid()) delete object;
  }

 private:
  pid_t process_ = ::getpid();
};

/// OS threads that run blocks. They stay from launch to launch.
class block_workers {
 public:
  block_workers() = default;
  ~block_workers();

  /// Runs a launch to its end. It has one OS thread per resident block, so these blocks make
  /// progress in every case.
  void run(kernel_launch& launch);

  /// The workers of this process. A copy of the pointer keeps them alive.
  [[nodiscard]] static std::shared_ptr<block_workers> shared();

  /// Whether the thread with this number of the system is one of them. Any thread calls.
  [[nodiscard]] static bool has(pid_t thread) noexcept;

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  // one entry for each resident block of a launch
  std::deque<kernel_launch*> queue_;
  std::vector<std::thread> threads_;
  std::size_t busy_ = 0;
  bool stopping_ = false;
};

}  // namespace gpufs::emulated
