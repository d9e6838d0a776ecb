#include <gpufs/device.hpp>
#include <gpufs/mapping/guarded_range.hpp>
#include <gpufs/mapping/page_runs.hpp>
#include <gpufs/mapping/quiet_lock.hpp>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace gpufs::shared {

using device_memory::host_access;
using device_memory::host_page;
using device_memory::shared_range;

guarded_range::guarded_range(std::uint64_t bytes, bool by_userfaultfd, bool is_guarded)
    : shared_range(bytes, is_guarded) {
  if (!by_userfaultfd || this->bytes() == 0) return;
  try {
    faults_ = std::make_unique<user_fault_file const>();
  } catch (device_error const& e) {
    why_not_ = e.what();
  }
}

std::byte* guarded_range::begin_of(block_run pages) const {
  return base() + pages.first * host_page;
}

void guarded_range::attach(std::uint64_t at, std::uint64_t bytes) {
  shared_range::attach(at, bytes);
  quiet_lock const lock(mutex_);
  in_memory_.add(pages_of(at, bytes));
  set_caught(at, bytes, host_access::read);
}

void guarded_range::set_host_side(std::uint64_t at, std::uint64_t bytes, int fd,
                                  std::uint64_t file_offset) {
  quiet_lock const frees(freeing_);
  quiet_lock const lock(mutex_);
  // First what may find no memory.
  auto in_memory = in_memory_;
  if (fd >= 0)
    in_memory.take(pages_of(at, bytes));
  else
    in_memory.add(pages_of(at, bytes));
  forget(pages_of(at, bytes));
  try {
    shared_range::set_host_side(at, bytes, fd, file_offset);
  } catch (...) {
    // It is as it was. The next touch opens what it may have.
    if (in_memory_.contains(at / host_page)) set_caught(at, bytes, host_access::none);
    throw;
  }
  in_memory_ = std::move(in_memory);
  if (fd < 0) set_caught(at, bytes, host_access::none);
}

std::uint64_t guarded_range::attach_managed(std::uint64_t bytes) {
  device_memory::managed_memory memory(bytes);
  auto const at = offset_of(memory.data());
  quiet_lock const lock(mutex_);
  managed_.emplace(at, std::move(memory));
  has_managed_.store(true, std::memory_order_relaxed);
  return at;
}

device_memory::managed_memory const& guarded_range::managed_at(std::uint64_t at) const {
  quiet_lock const lock(mutex_);
  return managed_.at(at);
}

void guarded_range::detach(std::uint64_t at, std::uint64_t bytes) noexcept {
  if (!has(at)) {
    // A GPU may wait for kernels when it is given back.
    auto const memory = [&] {
      quiet_lock const lock(mutex_);
      return managed_.extract(at);
    }();
    return;
  }
  quiet_lock const frees(freeing_);
  try {
    quiet_lock const lock(mutex_);
    forget(pages_of(at, bytes));
    in_memory_.take(pages_of(at, bytes));
  } catch (std::bad_alloc const&) {  // the next object here says anew what it is
  }
  shared_range::detach(at, bytes);
}

void guarded_range::begin_use(std::uint64_t at, std::uint64_t bytes, bool writes) {
  if (!has(at)) return;
  if constexpr (hands_over) {
    quiet_lock const lock(mutex_);
    forget(pages_of(at, bytes));
  }
  shared_range::begin_use(at, bytes, writes);
}

// A file's pages have protections.
bool guarded_range::end_use(std::uint64_t at, std::uint64_t bytes) noexcept {
  if (!has(at)) return true;
  if (!shared_range::end_use(at, bytes)) return false;
  if constexpr (hands_over) {
    quiet_lock const lock(mutex_);
    if (in_memory_.contains(at / host_page)) set_caught(at, bytes, host_access::none);
  }
  return true;
}

// CUDA registers what has entries that may be written, and waits for no touch.
bool guarded_range::add_host(std::uint64_t at, std::uint64_t bytes, bool is_written) noexcept {
  if (is_written) {
    if (protect(at, bytes, host_access::read_write) != 0) return false;
    if constexpr (!hands_over) populate(at, bytes);
  }
  return shared_range::add_host(at, bytes, is_written);
}

// The mapping allows what set_caught() is told, or less. The order matters: no entry is made
// between the drop of those that are there and the time when touches are caught.
void guarded_range::set_caught(std::uint64_t at, std::uint64_t bytes, host_access to) noexcept {
  auto const pages = pages_of(at, bytes);
  auto* const first = begin_of(pages);
  if (faults_ == nullptr || has_given_up_) return;
  // A child of fork() would have the pages without the faults.
  bool is_done = faults_->add(first, bytes_of(pages)) &&
                 ::madvise(first, bytes_of(pages), MADV_DONTFORK) == 0 && drop_entries(pages);
  try {
    if (is_done) {
      caught_.add(pages);
      set_allowed(pages, to);
      is_done = set_protection(first, bytes_of(pages), host_access::read_write);
    }
  } catch (std::bad_alloc const&) {
    is_done = false;
  }
  if (is_done) return;
  forget(pages);
  faults_->remove(first, bytes_of(pages));  // also what caught_ does not know
  static_cast<void>(set_protection(first, bytes_of(pages), to));
}

// Pages that are caught get a protection without access. Mappings replace them then.
void guarded_range::forget(block_run pages) noexcept try {
  if (faults_ == nullptr) return;
  for (auto const& run : caught_.within(pages)) {
    static_cast<void>(set_protection(begin_of(run), bytes_of(run), host_access::none));
    faults_->remove(begin_of(run), bytes_of(run));
  }
  set_allowed(pages, host_access::none);
  caught_.take(pages);
} catch (std::bad_alloc const&) {
  // They may count as caught still. Threads that touch them meet the mapping.
}

void guarded_range::set_allowed(block_run pages, host_access to) {
  if (to == host_access::none)
    readable_.take(pages);
  else
    readable_.add(pages);
  if (to == host_access::read_write)
    writable_.add(pages);
  else
    writable_.take(pages);
}

// Locked memory as well.
bool guarded_range::drop_entries(block_run pages) const noexcept {
  constexpr int dont_need_locked = 24;  // MADV_DONTNEED_LOCKED, of Linux 5.18
  return ::madvise(begin_of(pages), bytes_of(pages), dont_need_locked) == 0;
}

// Entries that allow more than `to` go, or are protected. Only readable pages have entries, and
// only writable ones have entries that are not protected.
bool guarded_range::narrow(block_run pages, host_access to) {
  if (to == host_access::none)
    return std::ranges::all_of(readable_.within(pages),
                               [&](block_run run) { return drop_entries(run); });
  return to == host_access::read_write ||
         std::ranges::all_of(writable_.within(pages), [&](block_run run) {
           return faults_->set_protected(begin_of(run), bytes_of(run), true) || drop_entries(run);
         });
}

// Pages may be written from now on.
void guarded_range::widen(block_run pages) {
  for (auto const& run : readable_.within(pages))
    static_cast<void>(faults_->set_protected(begin_of(run), bytes_of(run), false));
}

int guarded_range::protect(std::uint64_t at, std::uint64_t bytes, host_access to) noexcept try {
  if (!has(at)) return 0;
  if (faults_ == nullptr) return shared_range::protect(at, bytes, to);
  quiet_lock const lock(mutex_);
  auto const pages = pages_of(at, bytes);
  block_runs others;
  others.add(pages);
  for (auto const& run : caught_.within(pages)) {
    others.take(run);
    if (!narrow(run, to)) return ENOMEM;
    set_allowed(run, to);
    if (to == host_access::read_write) widen(run);
    // The thread that waits for a block goes on without another fault.
    if (to != host_access::none && run.end - run.first <= pages_with_entries)
      map_data(run, to == host_access::read);
  }
  for (auto const& run : others.runs()) {
    int const error = shared_range::protect(run.first * host_page, bytes_of(run), to);
    if (error != 0) return error;
  }
  return 0;
} catch (std::bad_alloc const&) {
  return ENOMEM;
}

void guarded_range::map_data(block_run pages, bool is_protected) {
  for (auto const& [first, end] : host_data(pages.first * host_page, bytes_of(pages)))
    faults_->map(base() + first, device_memory::rounded_up(end - first, host_page), is_protected);
}

// Pages that the CPU may read.
void guarded_range::map_allowed(block_run pages) {
  block_runs only_read;
  for (auto const& run : readable_.within(pages)) only_read.add(run);
  for (auto const& run : writable_.within(pages)) {
    map_data(run, false);
    only_read.take(run);
  }
  for (auto const& run : only_read.runs()) map_data(run, true);
}

// By the library's own addresses.
bool guarded_range::give_memory(block_run pages) const noexcept {
  return ::madvise(host_bytes(pages.first * host_page), bytes_of(pages), MADV_POPULATE_WRITE) == 0;
}

void guarded_range::populate(std::uint64_t at, std::uint64_t bytes) noexcept try {
  if (faults_ == nullptr) return shared_range::populate(at, bytes);
  quiet_lock const lock(mutex_);
  for (auto const& run : readable_.within(pages_of(at, bytes))) static_cast<void>(give_memory(run));
  map_allowed(pages_of(at, bytes));
} catch (std::bad_alloc const&) {
}

void guarded_range::drop_host(std::uint64_t at, std::uint64_t bytes) noexcept {
  quiet_lock const frees(freeing_);
  shared_range::drop_host(at, bytes);
}

void guarded_range::prepare(std::uint64_t at, std::uint64_t bytes) noexcept {
  if (give_memory(pages_of(at, bytes))) populate(at, bytes);
}

bool guarded_range::stops_system_calls() const {
  quiet_lock const lock(mutex_);
  return bytes() == 0 || (faults_ != nullptr && !has_given_up_);
}

}  // namespace gpufs::shared
