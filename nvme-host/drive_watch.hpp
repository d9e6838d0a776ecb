// Looks at controllers that kernels use: while the host sends them no commands, nobody else would
// see that one has failed.
#pragma once

#include <nvme-host/drive.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace gpufs::nvme_host {

/// Its thread looks at each drive every 10 ms, and resets a controller that has failed, has left,
/// or owes kernels an answer for too long. So their waits end, and their channels are free again.
/// It leaves a drive alone once kernels do not use it any more.
class drive_watch {
 public:
  /// The drives outlive this object. Throws std::system_error if there is no thread.
  explicit drive_watch(std::span<std::unique_ptr<drive> const> drives);
  /// Waits for a reset that is under way.
  ~drive_watch();
  drive_watch(drive_watch const&) = delete;
  drive_watch& operator=(drive_watch const&) = delete;

 private:
  void run();

  std::vector<drive*> drives_;  // the thread's own
  std::mutex mutex_;            // guards stops_
  std::condition_variable changed_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace gpufs::nvme_host
