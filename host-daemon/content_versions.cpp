// Versions of files' contents.
#include <host-daemon/content_versions.hpp>

namespace gpufs::daemon {

bool is_young(file_stamp const& stamp, std::int64_t now_ns) noexcept {
  constexpr std::int64_t second = 1'000'000'000;
  bool const whole_seconds = stamp.mtime_ns % second == 0 && stamp.ctime_ns % second == 0;
  std::int64_t const grain = whole_seconds ? 2 * second : second / 100;
  // Every change sets ctime, and nobody can set it to something else: a ctime in the future (a
  // server whose clock is ahead) could be repeated too. mtime counts for file systems without a
  // true ctime; users can set it to any time, so a far future one proves nothing.
  auto const mtime_age = now_ns - stamp.mtime_ns;
  return now_ns - stamp.ctime_ns < grain || (mtime_age < grain && mtime_age > -grain);
}

content_versions::content_versions(std::size_t capacity, std::uint32_t places)
    : capacity_{capacity} {
  free_places_.reserve(places);
  for (auto place = places; place > 0; --place) free_places_.push_back(place);
}

std::uint32_t content_versions::take_place() noexcept {
  if (free_places_.empty()) return 0;
  auto const place = free_places_.back();
  free_places_.pop_back();
  return place;
}

void content_versions::give_place_back(std::uint32_t place) noexcept {
  if (place != 0) free_places_.push_back(place);
}

content_versions::validation content_versions::open(file_stamp const& stamp, std::int64_t now_ns,
                                                    std::uint64_t order, bool for_writing) {
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
    found->second.place_in_list = std::prev(open_.end());
    changed = true;
  } else if (found->second.users == 0) {
    open_.splice(open_.end(), closed_, found->second.place_in_list);
  }
  auto& v = found->second;
  bool const known = !changed;
  ++v.users;
  if (v.writers == 0 && (changed || order > v.order)) {
    changed = changed || !v.settled || v.stamp != stamp;
    if (changed) {
      v.uid = ++last_uid_;
      v.was_written = false;
    }
    v.stamp = stamp;
    v.settled = !is_young(stamp, now_ns);
    v.order = order;
  }
  if (for_writing) {
    ++v.writers;
    if (!v.was_written && known && !changed) {
      v.uid = ++last_uid_;
      changed = true;
    }
    v.was_written = true;
  }
  if (v.was_written && v.place == 0) v.place = take_place();
  return {v.uid, v.stamp.size, changed, v.place};
}

void content_versions::close(std::uint64_t device, std::uint64_t inode, bool for_writing) noexcept {
  auto const found = versions_.find({device, inode});
  if (found == versions_.end() || found->second.users == 0) return;
  auto& v = found->second;
  if (for_writing && v.writers > 0) --v.writers;
  if (--v.users > 0) return;
  give_place_back(v.place);
  v.place = 0;
  if (!v.settled) {  // the next open would not trust it
    open_.erase(v.place_in_list);
    versions_.erase(found);
    return;
  }
  closed_.splice(closed_.end(), open_, v.place_in_list);
  if (closed_.size() > capacity_) {
    versions_.erase(closed_.front());
    closed_.pop_front();
  }
}

void content_versions::written(file_stamp const& stamp, std::int64_t now_ns) noexcept {
  auto const found = versions_.find({stamp.device, stamp.inode});
  if (found == versions_.end()) return;
  found->second.stamp = stamp;
  found->second.settled = !is_young(stamp, now_ns);
}

content_versions::validation content_versions::renew(std::uint64_t device, std::uint64_t inode,
                                                     std::uint64_t size) noexcept {
  auto const found = versions_.find({device, inode});
  if (found == versions_.end() || found->second.users == 0) return {0, 0, false, 0};
  auto& v = found->second;
  v.uid = ++last_uid_;
  v.stamp.size = size;
  v.settled = false;
  return {v.uid, size, true, v.place};
}

bool content_versions::is_open(std::uint64_t device, std::uint64_t inode) const noexcept {
  auto const found = versions_.find({device, inode});
  return found != versions_.end() && found->second.users != 0;
}

}  // namespace gpufs::daemon
