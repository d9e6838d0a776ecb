// Advice: noted where the device looks, and passed on to the operating system.
#include <host-daemon/files/file_registry.hpp>

#include <cerrno>

namespace gpufs::daemon {

std::int32_t file_registry::advise(std::int32_t descriptor, std::int64_t offset,
                                   std::int64_t length, advice what) noexcept {
  auto const host = borrow(descriptor);
  if (!host) return -EBADF;
  if (offset < 0 || length < 0) return -EINVAL;
  if (!concerns_whole_file(what)) {
    if (what != advice::willneed && what != advice::dontneed) return -EINVAL;
    return host->advise(offset, length, static_cast<int>(what));
  }
  {
    auto const held = find(descriptor);
    if (!held) return -EBADF;
    // Pairs with the device's acquire in prefetch::load_advice().
    records_.store(rpc::descriptor_index(descriptor), &rpc::open_file_record::advice,
                   std::uint64_t(what));
    records_.bump_epoch();
  }
  // A file system without readahead of its own may refuse.
  host->advise(0, 0, static_cast<int>(what));
  return 0;
}

}  // namespace gpufs::daemon
