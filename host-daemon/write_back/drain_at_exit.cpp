#include <host-daemon/write_back/drain_at_exit.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <vector>

#include <unistd.h>

namespace gpufs::daemon {

namespace {

// It is never destroyed: other threads may end filesystems, and globals may own some, while the
// program exits.
class live_filesystems {
 public:
  static live_filesystems& get() {
    static auto& all = *new live_filesystems;
    return all;
  }
  live_filesystems(live_filesystems const&) = delete;
  live_filesystems& operator=(live_filesystems const&) = delete;

  void add(write_back& writes) {
    std::lock_guard const lock{mutex_};
    if (!ours()) all_.clear();
    process_ = ::getpid();
    all_.push_back(&writes);
  }
  void remove(write_back& writes) {
    std::lock_guard const lock{mutex_};
    std::erase(all_, &writes);
  }

 private:
  live_filesystems() : then_{std::set_terminate([] { get().terminate(); })} {
    // Refused: there is no memory for one more handler, and exit(3) drains nothing.
    static_cast<void>(std::atexit([] { get().exit(); }));
  }

  // False in a child of fork(). There the dirty pages are old copies, and the threads and the
  // owners of locks do not exist. So it takes no lock and writes nothing.
  [[nodiscard]] bool ours() const noexcept { return process_ == ::getpid(); }

  void exit() {
    std::set_terminate(then_);
    if (!ours()) return;
    std::lock_guard const lock{mutex_};
    drain();
  }

  void drain() {
    for (auto* const writes : all_) {
      // Kernels that run keep their pages for a moment, those that died for ever.
      if (writes->flush(nullptr) == -ETIMEDOUT)
        static_cast<void>(writes->flush(nullptr, {}, write_back::busy_pages::write));
      writes->report_lost();
    }
  }

  [[noreturn]] void terminate() {
    if (ours()) {
      // Without the lock: this thread, or another one that ends the program, is inside one of the
      // functions above.
      std::unique_lock const lock{mutex_, std::try_to_lock};
      if (lock) drain();
    }
    if (then_ != nullptr) then_();
    std::abort();
  }

  std::mutex mutex_;
  std::vector<write_back*> all_;
  pid_t process_ = ::getpid();  // that made the filesystems
  std::terminate_handler const then_;
};

}  // namespace

void drain_at_exit(write_back& writes, bool on) {
  auto& live = live_filesystems::get();
  on ? live.add(writes) : live.remove(writes);
}

}  // namespace gpufs::daemon
