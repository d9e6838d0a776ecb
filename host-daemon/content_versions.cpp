// Versions of files' contents.
#include <host-daemon/content_versions.hpp>

namespace gpufs::daemon {

bool is_young(file_stamp const& stamp, std::int64_t now_ns) noexcept {
  constexpr std::int64_t second = 1'000'000'000;
  bool const whole_seconds = stamp.mtime_ns % second == 0 && stamp.ctime_ns % second == 0;
  std::int64_t const grain = whole_seconds ? 2 * second : second / 100;
  // Every change sets ctime, and nobody can set it to something else: a ctime in the future (a server whose clock is ahead) could be
  // repeated too. mtime counts for file systems without a true ctime; users can set it to any time, so a far future one proves nothing.
  auto const mtime_age = now_ns - stamp.mtime_ns;
  return now_ns - stamp.ctime_ns < grain || (mtime_age < grain && mtime_age > -grain);
}

content_versions::validation content_versions::open(file_stamp const& stamp, std::int64_t now_ns, std::uint64_t order) {
  key const k{stamp.device, stamp.inode};
  auto found = versions_.find(k);
  bool changed = false;
  if (found == versions_.end()) {
    open_.push_back(k);
    try {
      found = versions_.try_emplace(k).first;
    } catch (...) {
      open_.pop_back();
      throw;
    }
    found->second.place = std::prev(open_.end());
    changed = true;
  } else if (found->second.users == 0) {
    open_.splice(open_.end(), closed_, found->second.place);
  }
  auto& v = found->second;
  ++v.users;
  if (changed || order > v.order) {
    changed = changed || !v.settled || v.stamp != stamp;
    if (changed) v.uid = ++last_uid_;
    v.stamp = stamp;
    v.settled = !is_young(stamp, now_ns);
    v.order = order;
  }
  return {v.uid, v.stamp.size, changed};
}

void content_versions::close(std::uint64_t device, std::uint64_t inode) noexcept {
  auto const found = versions_.find({device, inode});
  if (found == versions_.end() || found->second.users == 0 || --found->second.users > 0) return;
  if (!found->second.settled) {  // the next open would not trust it
    open_.erase(found->second.place);
    versions_.erase(found);
    return;
  }
  closed_.splice(closed_.end(), open_, found->second.place);
  if (closed_.size() > capacity_) {
    versions_.erase(closed_.front());
    closed_.pop_front();
  }
}

}  // namespace gpufs::daemon
