#include <host-daemon/base/thread.hpp>

#include <nvme-host/drive_watch.hpp>

#include <chrono>
#include <new>

namespace gpufs::nvme_host {

namespace {

constexpr std::chrono::milliseconds look_interval{10};

bool kernels_use(drive& one) noexcept {
  try {
    return one.look_after_kernels();
  } catch (std::bad_alloc const&) {  // the next look tries again
    return true;
  }
}

}  // namespace

drive_watch::drive_watch(std::span<std::unique_ptr<drive> const> drives) {
  for (auto const& each : drives) drives_.push_back(each.get());
  thread_ = daemon::start_thread("lower the number of threads", [this] { run(); });
}

drive_watch::~drive_watch() {
  {
    std::lock_guard const lock{mutex_};
    stops_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void drive_watch::run() {
  daemon::set_up_thread("nvme-watch");
  std::unique_lock lock{mutex_};
  while (!drives_.empty() && !changed_.wait_for(lock, look_interval, [this] { return stops_; })) {
    lock.unlock();
    std::erase_if(drives_, [](drive* each) { return !kernels_use(*each); });
    lock.lock();
  }
}

}  // namespace gpufs::nvme_host
