// Notes that daemon threads leave for the owner of the filesystem.
#pragma once

#include <host-daemon/base/log.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace gpufs::daemon {

/// Any thread calls. A second note on the same subject is dropped. Notes are logged, too.
class note_list {
 public:
  void add(std::string const& subject, std::string const& note) {
    std::lock_guard const lock{mutex_};
    if (std::find(subjects_.begin(), subjects_.end(), subject) != subjects_.end()) return;
    subjects_.push_back(subject);
    notes_.push_back(note);
    log_line(log_level::info, note);
  }

  [[nodiscard]] std::vector<std::string> all() const {
    std::lock_guard const lock{mutex_};
    return notes_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> subjects_, notes_;
};

}  // namespace gpufs::daemon
