// What becomes of an opened file: descriptors are shared, or made with the record that devices
// read.
#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <cerrno>
#include <utility>

#include <sys/stat.h>

namespace gpufs::daemon {

// Returns what try_open() returns, or nothing: what was seen of the file is older than our own
// changes of it may be, so it must be looked at again.
std::optional<std::int32_t> file_registry::share_or_insert(
    std::shared_ptr<stored_file const> const& host, std::string const& path, int access, bool waits,
    file_look const& seen, reserved_place& place) {
  key const k{seen.status.st_dev, seen.status.st_ino, access};
  release_kept();
  auto& home = shard_of(k.device, k.inode);
  std::unique_lock lock{home.mutex};
  // An open that brings no new write index need not wait.
  bool const is_known = home.open.contains(k) && home.versions.write_index(k.device, k.inode) != 0;
  if (!is_known) {
    if (!waits && home.truncating.contains({k.device, k.inode})) return 0;
    home.await_truncation(lock, {k.device, k.inode});
  }
  // The size of a file that is being written is not looked at: kernels know it.
  if (seen.order < home.changed_at && !home.versions.is_written(k.device, k.inode)) return {};
  if (std::uint64_t(seen.status.st_size) > rpc::payload_mask + 1)
    return -EFBIG;  // offsets travel in 48 bits
  auto const validate = [&] {
    return home.versions.open(stamp_of(seen.status), seen.now_ns, seen.order, shares_pages(access),
                              host->block_backing());
  };
  if (auto const shared = home.open.find(k); shared != home.open.end()) {
    auto const opened = validate();
    auto& e = entries_[shared->second];
    ++e.users;
    if (opened.changed) update_records(home, k, opened);
    return rpc::make_descriptor(shared->second, e.generation);
  }
  if (!place.reserve()) return -ENFILE;  // first: without a place nothing changes
  auto const result = insert(home, k, place.number(), host, path, validate());
  if (result >= 0) place.keep();
  return result;
}

// Makes a descriptor at a free place, for an open that `opened` has counted. On failure it counts
// no more, and `host` is the caller's still: it is closed outside the lock.
std::int32_t file_registry::insert(shard& home, key const& k, std::uint32_t index,
                                   std::shared_ptr<stored_file const> const& host,
                                   std::string const& path,
                                   content_versions::validation const& opened) {
  bool const shares = shares_pages(k.access);
  bool const writes = for_writing(k.access);
  bool const once = (k.access & write_once) != 0;
  auto const once_write_index = once ? numbers_.take_write_index() : 0;
  std::shared_ptr<written_file> file;
  auto const tell_others = [&] {
    if (opened.changed) update_records(home, k, opened);
  };
  if ((once ? once_write_index : opened.write_index) == 0 && writes) {
    tell_others();
    home.versions.close(k.device, k.inode, shares);
    return -ENFILE;  // files whose dirty pages cannot be written have all write indices
  }
  try {
    if (writes) file = start_writing(home, k, host, path, opened, once_write_index);
    home.open.emplace(k, index);
  } catch (...) {
    if (file) undo_writing(home, k, once);
    tell_others();
    numbers_.return_write_index(once_write_index);
    home.versions.close(k.device, k.inode, shares);
    throw;
  }
  auto& e = entries_[index];
  // Generations begin anew. Contexts that have not looked for so long must look again: what they
  // remember may be a file that had this descriptor before.
  if (e.generation == rpc::last_generation) records_.count_change();
  e.generation = e.generation % rpc::last_generation + 1;
  e.users = 1;
  e.file = k;
  e.host = host;
  e.writes = std::move(file);
  e.once_write_index = once_write_index;
  publish(home, index,
          once ? content_versions::validation{e.writes->once_version, opened.size, true,
                                              once_write_index, false}
               : opened,
          k.access);
  tell_others();
  return rpc::make_descriptor(index, e.generation);
}

void file_registry::publish(shard const& home, std::uint32_t index,
                            content_versions::validation const& opened, int access) noexcept {
  using record = rpc::open_file_record;
  records_.store(index, &record::version, opened.version);
  records_.store(index, &record::size, opened.size);
  records_.store(index, &record::flags, std::uint64_t(access));
  records_.store(index, &record::advice, std::uint64_t(advice::normal));
  records_.store(index, &record::write_index, opened.write_index);
  records_.store(index, &record::renewed, opened.renewed ? 1 : 0);
  // Pairs with the device's acquire of the tag: a thread that sees this generation sees the fields
  // above.
  auto& e = entries_[index];
  records_.store(index, &record::tag, e.generation);
  // Pairs with the acquire in is_open().
  e.open_as.store(open_word(home.number, e.generation), std::memory_order_release);
}

}  // namespace gpufs::daemon
