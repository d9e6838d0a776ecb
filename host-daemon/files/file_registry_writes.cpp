// Files that are written: looks at them, and the host's own changes to their contents.
#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/base/no_size_signal.hpp>
#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/base/reported_error.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <cerrno>
#include <chrono>
#include <climits>
#include <new>
#include <string_view>

#include <sys/stat.h>

namespace gpufs::daemon {

namespace {

// The kinds of opens whose descriptors share the version of a file.
constexpr int kinds[] = {O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_APPEND, O_RDWR | O_APPEND};

}  // namespace

int file_registry::flush_all() noexcept {
  drop_nameless();
  int const result = writes_ != nullptr ? writes_->flush(nullptr) : 0;
  release_kept();
  return result == 0 || result == -ETIMEDOUT ? result : -EIO;  // sync(fd) says which error
}

// Returns false if there is no memory. Then the old version stays in use: the pages that it names
// are as old as its last open.
bool file_registry::update_records(shard& home, key const& k,
                                   content_versions::validation const& opened) noexcept {
  auto const w = home.writing.find({k.device, k.inode});
  if (w != home.writing.end()) {
    try {
      writes_->attach(opened.version, w->second.file);
    } catch (std::bad_alloc const&) {
      return false;
    }
  }
  for (int const kind : kinds) {
    auto const found = home.open.find({k.device, k.inode, kind});
    if (found == home.open.end()) continue;
    using record = rpc::open_file_record;
    // The version comes last: a device thread that acquires it sees the other words at least as
    // new. Then the epoch, so that the device loads its copies again.
    records_.store(found->second, &record::size, opened.size);
    records_.store(found->second, &record::write_index, opened.write_index);
    records_.store(found->second, &record::renewed, opened.renewed ? 1 : 0);
    records_.store(found->second, &record::version, opened.version);
  }
  records_.bump_epoch();
  // The first open of a file is news to nobody. Kernels that open many files must not make each
  // other load records again.
  if (opened.changed && (opened.renewed || home.versions.opens(k.device, k.inode) > 1))
    records_.count_change();
  return true;
}

// Returns the written file behind the descriptor: if this descriptor writes it, or (not
// for_writing) if any does.
std::shared_ptr<written_file> file_registry::written(std::int32_t descriptor, key* which,
                                                     bool for_writing) const noexcept {
  auto const held = find(descriptor);
  if (!held) return nullptr;
  if (which != nullptr) *which = held->file;
  if (held->writes || for_writing) return held->writes;
  auto const& files = held.home->writing;
  auto const found = files.find({held->file.device, held->file.inode});
  return found == files.end() ? nullptr : found->second.file;
}

std::int32_t file_registry::sync(std::int32_t descriptor, may_begin const& begin) noexcept {
  if (auto const file = written(descriptor, nullptr, false)) {
    int const error = writes_->sync(*file, begin);
    release_kept();  // pages of an earlier O_GWRONCE may be written now
    return error;
  }
  auto const host = borrow(descriptor);
  if (!host) return -EBADF;
  auto const begun = std::chrono::steady_clock::now();
  int const error = while_interrupted([&] { return host->sync(); });
  if (auto* const requests = settings_.requests; requests != nullptr)
    requests->record({.kind = host_request::sync,
                      .result = error,
                      .begin = begun,
                      .end = std::chrono::steady_clock::now()},
                     *host);
  return reported_error(error);
}

std::int32_t file_registry::unlink(std::string_view path) noexcept {
  if (path.size() > PATH_MAX - 1) return -ENAMETOOLONG;
  if (path.find('\0') != std::string_view::npos) return -EINVAL;
  try {
    int const error = settings_.storage->unlink(std::string{path});
    if (error == 0) drop_nameless();
    return error;
  } catch (std::bad_alloc const&) {
    return -ENOMEM;
  }
}

// Looks at the file's size, and says it to device code. With `renews` the file also gets a new
// version, as its pages do not say what the file has. They stay behind under the old version. It
// gets one even if the file cannot be looked at, since kernels would read those pages for ever.
// Then `known` is its size; without `known` it keeps its size until the next look. Returns 0 or
// -errno.
//
// gwrite may be under way, and pages of the old version may be dirty or become so. The device takes
// the new version when none is left (file::take_version), and asks for the size again. Pages of
// O_GWRONCE keep their version: nobody reads them.
int file_registry::look_at(key const& k, stored_file const& file, look what,
                           std::optional<std::uint64_t> known, truncation* told) noexcept {
  auto order = next_look();
  struct ::stat status {};
  int const error = status_of(file, status);
  if (error != 0 && what == look::resizes) return error;
  auto const size = error == 0 ? std::uint64_t(status.st_size) : known.value_or(0);
  if (error != 0 && !known) order = 0;  // older than any look: the size stays
  auto& home = shard_of(k.device, k.inode);
  std::lock_guard const lock{home.mutex};
  // A file that is not written keeps its size until the next open, as its pages do.
  if (what == look::resizes && home.versions.write_index(k.device, k.inode) == 0) return error;
  auto const now = what == look::renews ? home.versions.renew(k.device, k.inode, size, order)
                                        : home.versions.resize(k.device, k.inode, size, order);
  bool const is_known = now.version != 0 && update_records(home, k, now);
  if (told != nullptr && is_known) {
    told->write_index = now.write_index;
    told->version = now.version;
    told->new_size = now.size;
  }
  return error;
}

// Writes dirty pages. Returns 0 or an error that stays with the file: gfsync reports it.
int file_registry::flush_or_error(written_file const& file, write_back_part const& part) noexcept {
  int const failed = writes_->flush(&file, part);
  if (failed == 0) return 0;
  int const first = file.error.load(std::memory_order_acquire);
  return first != 0 ? first : failed;
}

std::int32_t file_registry::flush(std::int32_t descriptor) noexcept {
  key k{};
  auto const file = written(descriptor, &k, false);
  auto const host = borrow(descriptor);
  if (!host) return -EBADF;
  if (file)
    if (int const failed = flush_or_error(*file, {.once = false})) return failed;
  return look_at(k, *host, look::resizes);
}

// Returns 0, or rpc::other_gate_needed if another write index is kept out than the file has. Until
// end_truncating() the file gets none and gives none back. Throws std::bad_alloc.
std::int32_t file_registry::begin_truncating(key const& k, truncation& what) {
  auto& home = shard_of(k.device, k.inode);
  std::unique_lock lock{home.mutex};
  home.await_truncation(lock, {k.device, k.inode});
  auto const w = home.writing.find({k.device, k.inode});
  if (w == home.writing.end()) return -EBADF;  // closed meanwhile
  auto const other = shares_pages(k.access) ? w->second.file->once_write_index.load()
                                            : home.versions.write_index(k.device, k.inode);
  if (other != what.kept_out) {  // also if that one has gone: another file may have it by now
    what.write_index = other;
    return rpc::other_gate_needed;
  }
  home.truncating.insert({k.device, k.inode});
  return 0;
}

// A page that stays dirty would be left behind under the old version, and the next gwrite to it
// would take a second buffer. So nothing is truncated unless all pages that stay are written.
std::int32_t file_registry::truncate(std::int32_t descriptor, truncation& what,
                                     may_begin const& begin) noexcept try {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return borrow(descriptor) ? -EINVAL : -EBADF;
  // Whole pages beyond the new end need not be written.
  if (int const failed = flush_or_error(*file, {.end = what.size})) return failed;
  if (auto const refused = begin_truncating(k, what); refused != 0) return refused;
  struct truncating {
    file_registry& of;
    key const& k;
    ~truncating() { of.end_truncating(k.device, k.inode); }
  } const under_way{*this, k};
  // Writers of the other kind may have come before the mark, and gone. So look again.
  if (int const failed = flush_or_error(*file, {.end = what.size})) return failed;
  if (begin && !begin()) return -ETIMEDOUT;
  no_size_signal const guard;
  file->changed = true;
  if (int const error = writes_->discard(*file, what.size, [&] {
        return reported_error(while_interrupted([&] { return file->host->truncate(what.size); }));
      }))
    return error;
  static_cast<void>(look_at(k, *file->host, look::renews, what.size, &what));
  return 0;
} catch (std::bad_alloc const&) {
  return -ENOMEM;
}

std::int32_t file_registry::write(std::int32_t descriptor,
                                  std::function<bool(stored_file const&)> const& writer) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return -EBADF;
  // Earlier gwrites come before these bytes.
  if (int const failed = flush_or_error(*file, {})) return failed;
  no_size_signal const guard;
  file->changed = true;
  if (writer(*file->host)) static_cast<void>(look_at(k, *file->host, look::renews));
  return 0;
}

std::int32_t file_registry::discard(std::int32_t descriptor) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return borrow(descriptor) ? -EINVAL : -EBADF;
  int const error = writes_->discard(*file);
  writes_->drop_errors(*file);
  static_cast<void>(look_at(k, *file->host, look::renews));
  return error;
}

}  // namespace gpufs::daemon
