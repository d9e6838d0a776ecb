#include <host-daemon/drain_at_exit.hpp>

#include <cstdio>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <host-daemon/write_back.hpp>

namespace gpufs::daemon {

namespace {

class live_filesystems {
 public:
  ~live_filesystems() {
    std::lock_guard const lock{mutex_};
    for (auto* const writes : all_) {
      static_cast<void>(writes->flush(nullptr));
      for (auto const& line : writes->unwritten()) fmt::print(stderr, "gpufs: lost, could not be written: {}\n", line);
    }
  }
  void add(write_back& writes) {
    std::lock_guard const lock{mutex_};
    all_.push_back(&writes);
  }
  void remove(write_back& writes) {
    std::lock_guard const lock{mutex_};
    std::erase(all_, &writes);
  }

 private:
  std::mutex mutex_;
  std::vector<write_back*> all_;
};

}  // namespace

void drain_at_exit(write_back& writes, bool on) {
  static live_filesystems live;
  on ? live.add(writes) : live.remove(writes);
}

}  // namespace gpufs::daemon
