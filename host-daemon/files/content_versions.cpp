// Versions of the contents of files.
#include <host-daemon/files/content_versions.hpp>

namespace gpufs::daemon {

bool is_young(file_stamp const& stamp, std::int64_t now_ns) noexcept {
  constexpr std::int64_t second = 1'000'000'000;
  bool const whole_seconds = stamp.mtime_ns % second == 0 && stamp.ctime_ns % second == 0;
  std::int64_t const grain = whole_seconds ? 2 * second : second / 100;
  // Every change sets ctime, and no program can set it to another time. A ctime in the future comes
  // from a server whose clock is ahead; a change could repeat it, too.
  // mtime counts for file systems without a true ctime. Users can set it to any time, so one far in
  // the future proves nothing.
  auto const mtime_age = now_ns - stamp.mtime_ns;
  return now_ns - stamp.ctime_ns < grain || (mtime_age < grain && mtime_age > -grain);
}

// Finds the version of a file, or makes one, and lists it as open. Throws std::bad_alloc, and has
// changed nothing then.
content_versions::file_entry& content_versions::opened(file_id const& k, bool& is_new) {
  auto const [found, made] = versions_.try_emplace(k);
  is_new = made;
  if (made) {
    try {
      open_.push_back(k);
    } catch (...) {
      versions_.erase(found);
      throw;
    }
    found->second.place_in_list = std::prev(open_.end());
  } else if (found->second.users == 0) {
    open_.splice(open_.end(), closed_, found->second.place_in_list);
    numbers_.forget();
  }
  return found->second;
}

content_versions::validation content_versions::open(file_stamp const& stamp, std::int64_t now_ns,
                                                    std::uint64_t order, bool for_writing,
                                                    std::uint8_t backing) {
  bool changed = false;
  auto& v = opened({stamp.device, stamp.inode}, changed);
  v.backing = backing;
  bool const known = !changed;
  // Kernels do not read pages of a written file by themselves. Nobody holds it open any more.
  if (backing != 0 && v.users == 0 && v.was_written && !for_writing) changed = true;
  ++v.users;
  if (v.writers == 0 && (changed || order > v.order)) {
    changed = changed || !v.settled || v.stamp != stamp;
    if (changed) {
      v.version = version_after(v.version, v.backing);
      v.was_written = false;
      v.renewed = false;
    }
    v.stamp = stamp;
    v.settled = !is_young(stamp, now_ns);
    v.order = order;
    if (order > v.size_order) {
      v.size = stamp.size;
      v.size_order = order;
    }
  }
  if (for_writing) {
    ++v.writers;
    if (!v.was_written && known && !changed) {
      v.version = version_after(v.version, v.backing);
      v.renewed = false;
      changed = true;
    }
    v.was_written = true;
  }
  if (v.was_written && v.write_index == 0) {
    v.write_index = numbers_.take_write_index();
    // Descriptors without an index cache pages up to the end of the file only. The next open for
    // writing must not find these.
    if (v.write_index == 0) v.was_written = false;
    // Descriptors that were opened while no index was free know the end of the file from their
    // record alone.
    if (v.write_index != 0 && v.users > 1 && !changed) {
      v.version = version_after(v.version, v.backing);
      v.renewed = false;
      changed = true;
    }
  }
  return {v.version, v.size, changed, v.write_index, v.renewed};
}

void content_versions::close(std::uint64_t device, std::uint64_t inode, bool for_writing) noexcept {
  auto const found = versions_.find({device, inode});
  if (found == versions_.end() || found->second.users == 0) return;
  auto& v = found->second;
  if (for_writing && v.writers > 0) --v.writers;
  if (--v.users > 0) return;
  numbers_.return_write_index(v.write_index);
  v.write_index = 0;
  if (!v.settled) {  // the next open could not trust it
    open_.erase(v.place_in_list);
    versions_.erase(found);
    return;
  }
  closed_.splice(closed_.end(), open_, v.place_in_list);
  if (!numbers_.remember()) {
    versions_.erase(closed_.front());
    closed_.pop_front();
    numbers_.forget();
  }
}

void content_versions::written(std::uint64_t device, std::uint64_t inode) noexcept {
  auto const found = versions_.find({device, inode});
  if (found != versions_.end()) found->second.settled = false;
}

content_versions::validation content_versions::renew(std::uint64_t device, std::uint64_t inode,
                                                     std::uint64_t size,
                                                     std::uint64_t order) noexcept {
  auto const found = versions_.find({device, inode});
  if (found == versions_.end() || found->second.users == 0) return {};
  found->second.version = version_after(found->second.version, found->second.backing);
  found->second.settled = false;
  found->second.renewed = true;
  auto renewed = resize(device, inode, size, order);
  renewed.changed = true;
  return renewed;
}

content_versions::validation content_versions::resize(std::uint64_t device, std::uint64_t inode,
                                                      std::uint64_t size,
                                                      std::uint64_t order) noexcept {
  auto const found = versions_.find({device, inode});
  if (found == versions_.end() || found->second.users == 0) return {};
  auto& v = found->second;
  if (order > v.size_order) {
    v.size = size;
    v.size_order = order;
  }
  return {v.version, v.size, false, v.write_index, v.renewed};
}

bool content_versions::is_written(std::uint64_t device, std::uint64_t inode) const noexcept {
  auto const found = versions_.find({device, inode});
  return found != versions_.end() && found->second.writers > 0;
}

std::uint32_t content_versions::write_index(std::uint64_t device,
                                            std::uint64_t inode) const noexcept {
  auto const found = versions_.find({device, inode});
  return found != versions_.end() ? found->second.write_index : 0;
}

std::uint64_t content_versions::opens(std::uint64_t device, std::uint64_t inode) const noexcept {
  auto const found = versions_.find({device, inode});
  return found != versions_.end() ? found->second.users : 0;
}

}  // namespace gpufs::daemon
