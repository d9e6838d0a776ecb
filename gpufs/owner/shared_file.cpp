// Files behind shared objects, on the storage that the daemon uses as well.
#include <gpufs/owner/setting_kinds.hpp>
#include <gpufs/owner/shared_file.hpp>
#include <gpufs/owner/stored_backing.hpp>
#include <gpufs/shared_memory_error.hpp>

#include <host-daemon/backend/host_storage.hpp>
#include <host-daemon/backend/open_with_patience.hpp>
#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/base/no_size_signal.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::owner {

namespace {

using daemon::while_interrupted;

[[noreturn]] void refuse(std::string const& name, int error, std::string const& what) {
  throw shared_memory_error(error, fmt::format("shared memory: {}: {}", name, what));
}

void check(map_options const& o) {
  bool const writes = o.access != access::read;
  if (o.protocol == coherence_protocol::batch)
    reject("protocol", "batch", "lazy or rolling for an object with a file");
  if (!writes && (o.create || o.truncate))
    reject(o.create ? "create" : "truncate", "true",
           "false, or access write or read_write beside it");
  if (!writes && o.scratch)
    reject("scratch", "true", "false, or access write or read_write beside it");
  if (o.offset % shared::file_page != 0)
    reject("offset", std::to_string(o.offset), "a multiple of 4096");
  if (o.length > std::uint64_t(INT64_MAX) - std::min<std::uint64_t>(o.offset, INT64_MAX))
    reject("length", std::to_string(o.length), "such that offset + length is below 2^63");
}

/// Lengths of a file.
struct lengths {
  std::uint64_t before, kept, wanted;
};

// Makes the file `size` bytes long, unless it is longer: others may have made it so since. Returns
// 0 or -errno. Without blocks, what others append in the very moment between the look and the cut
// is lost: no call makes a file longer only, and gives it no block.
int lengthen(daemon::stored_file const& file, std::uint64_t size, bool with_blocks) {
  // This one never makes it shorter, but gives its last byte a block.
  if (with_blocks &&
      while_interrupted([&] {
        return ::fallocate(file.read_descriptor(), 0, off_t(size - 1), 1) == 0 ? 0 : -errno;
      }) == 0)
    return 0;
  struct ::stat now {};
  if (int const error = file.status(now); error != 0) return error;
  if (std::uint64_t(now.st_size) >= size) return 0;
  return while_interrupted([&] { return file.truncate(size); });
}

// Gives the file `size` bytes at least, and those from `from` on blocks. Returns 0 or -errno.
int grow(daemon::stored_file const& file, std::uint64_t from, std::uint64_t size,
         bool with_blocks) {
  daemon::no_size_signal const quiet;
  // The blocks first, so that a full disk leaves the size as it is.
  if (with_blocks) {
    int const error = while_interrupted([&] { return file.allocate(from, size - from); });
    if (error != 0 && error != -EOPNOTSUPP) return error;
  }
  return lengthen(file, size, with_blocks);
}

// The same, or refuses. A file that was `before` bytes long stays so.
void grow_or_refuse(daemon::stored_file const& file, std::string const& name, std::uint64_t before,
                    std::uint64_t from, std::uint64_t size, bool with_blocks) {
  if (size <= from) return;
  int const error = grow(file, from, size, with_blocks);
  if (error == 0) return;
  // Blocks behind its end are given back. Others may have written there.
  struct ::stat now {};
  if (file.status(now) == 0 && std::uint64_t(now.st_size) == before)
    static_cast<void>(file.truncate(before));
  refuse(name, -error, fmt::format("{} bytes: {}", size, std::strerror(-error)));
}

// A file that is to be cut gets all of its blocks before: nothing is lost of one for which there is
// no room.
void make_length(daemon::stored_file const& file, std::string const& name, lengths const& l,
                 bool with_blocks) {
  if (l.before > l.kept) {
    auto const from = with_blocks ? l.kept : l.before;
    grow_or_refuse(file, name, l.before, from, l.wanted, with_blocks);
    int const error = while_interrupted([&] { return file.truncate(l.kept); });
    if (error != 0)
      refuse(name, -error, std::string("cannot be truncated: ") + std::strerror(-error));
  }
  grow_or_refuse(file, name, l.kept, l.kept, l.wanted, with_blocks);
}

}  // namespace

shared::file_to_map open_to_map(std::string const& path, std::string const& name,
                                map_options const& options) {
  check(options);
  if (path.find('\0') != std::string::npos)
    refuse(path.c_str(), EINVAL, "the path goes on behind a zero byte");
  bool const writes = options.access != access::read;
  daemon::host_storage storage;
  constexpr unsigned mode = 0666;
  struct ::stat before {};
  if (options.create && options.length == 0 && storage.status(path, before) == -ENOENT)
    refuse(name, EINVAL, "a new file needs a length");
  int const access = writes ? O_RDWR : O_RDONLY;
  auto const open = [&](int flags) {
    return daemon::open_with_patience(storage, path, access | flags, mode);
  };
  auto opened = open(0);
  bool const is_new =
      opened.error == -ENOENT && options.create && (opened = open(O_CREAT | O_EXCL)).error == 0;
  if (opened.error == -EEXIST) opened = open(O_CREAT);
  if (opened.file == nullptr) refuse(name, -opened.error, std::strerror(-opened.error));
  auto const backing = std::make_shared<stored_backing>(opened.file, name);
  if (is_new) backing->goes_unless_kept(path);
  auto const& status = opened.status;
  if (writes && !backing->begin_writes({status.st_dev, status.st_ino}))
    refuse(name, EBUSY, "has a writable object in this process; unmap it first");
  std::uint64_t size = std::uint64_t(status.st_size);
  std::uint64_t const kept = options.truncate ? 0 : size;
  std::uint64_t const length =
      options.length != 0 ? options.length : size - std::min(size, options.offset);
  if (length == 0)
    refuse(name, EINVAL,
           fmt::format("no bytes from offset {} on; the file has {}: give a length, and create "
                       "to make the file longer",
                       options.offset, size));
  std::uint64_t const end = options.offset + length;
  if (end > size && !options.create)
    refuse(name, EINVAL,
           fmt::format("bytes {} to {} asked for, the file has {}: lower length, or set create",
                       options.offset, end, size));
  std::function<void()> prepare;
  if (size > kept || end > kept)
    prepare = [=, file = opened.file, with_blocks = !options.scratch] {
      make_length(*file, name, {size, kept, end}, with_blocks);
      backing->keep();
    };
  bool const has_old = kept > options.offset;
  auto const begins_with = !has_old || options.scratch       ? shared::first_bytes::zeros
                           : options.access == access::write ? shared::first_bytes::unwritten
                                                             : shared::first_bytes::file;
  bool const is_eager = options.eager.value_or(options.access == access::read);
  return {backing,     options.offset,  length,   options.access,
          begins_with, options.scratch, is_eager, std::move(prepare)};
}

shared::file_to_map open_to_remap(shared::file_in_use const& now, std::uint64_t bytes, access use) {
  if (int const error = shared::look_for_end(*now.file, now.offset + bytes); error != 0)
    refuse(now.file->name(), -error,
           error == -ESTALE ? "the file became shorter" : std::strerror(-error));
  // One that writes keeps others from it, so it stays the same.
  if (use != access::read && now.use != access::read)
    return {now.file,
            now.offset,
            bytes,
            use,
            use == access::write ? shared::first_bytes::unwritten : shared::first_bytes::file,
            false,
            false};
  auto const path = "/proc/self/fd/" + std::to_string(now.file->descriptor());
  return open_to_map(path, now.file->name(),
                     {.access = use, .length = bytes, .offset = now.offset, .eager = false});
}

std::shared_ptr<shared::backing_file const> make_spill_file(std::string const& folder) {
  daemon::host_storage storage;
  // By a name: not all file systems can make files without one.
  static std::atomic<unsigned> made{0};
  for (;;) {
    auto const path = fmt::format("{}/gpufs-spill-{}-{}", folder, ::getpid(),
                                  made.fetch_add(1, std::memory_order_relaxed));
    constexpr unsigned mode = 0600;
    auto const opened = storage.open(path, O_RDWR | O_CREAT | O_EXCL, mode);
    int const error = opened.file == nullptr ? opened.error : storage.unlink(path);
    if (error == 0) return std::make_shared<stored_backing>(opened.file, "spill_dir");
    if (error == -EEXIST) continue;  // left by a process of that number
    reject(
        "spill_dir", folder,
        fmt::format("a folder in which files can be made and removed ({})", std::strerror(-error)));
  }
}

}  // namespace gpufs::owner
