#include <gpufs/device.hpp>
#include <gpufs/mapping/guarded_range.hpp>
#include <gpufs/mapping/quiet_lock.hpp>

#include <algorithm>
#include <cerrno>
#include <new>

#include <sys/mman.h>

namespace gpufs::shared {

using device_memory::host_access;
using device_memory::host_page;
using device_memory::shared_range;

namespace {

// A touch makes entries for so many neighbours, and so many of these get memory: an entry costs
// much less than a touch, and memory may never be used.
constexpr std::uint64_t pages_with_entries = (2 << 20) / host_page;
constexpr std::uint64_t pages_with_memory = (256 << 10) / host_page;

block_run pages_of(std::uint64_t at, std::uint64_t bytes) {
  return {at / host_page, (at + bytes + host_page - 1) / host_page};
}

block_run around(std::uint64_t page, std::uint64_t count) {
  std::uint64_t const first = page / count * count;
  return {first, first + count};
}

std::uint64_t bytes_of(block_run pages) { return (pages.end - pages.first) * host_page; }

bool set_protection(void* first, std::uint64_t bytes, host_access to) {
  return ::mprotect(first, bytes, device_memory::protection_for(to)) == 0;
}

}  // namespace

guarded_range::guarded_range(std::uint64_t bytes, bool by_userfaultfd) : shared_range(bytes) {
  if (!by_userfaultfd) return;
  try {
    faults_ = std::make_unique<user_fault_file const>();
  } catch (device_error const& e) {
    why_not_ = e.what();
  }
}

std::byte* guarded_range::address_of(block_run pages) const {
  return base() + pages.first * host_page;
}

void guarded_range::attach(std::uint64_t at, std::uint64_t bytes) {
  shared_range::attach(at, bytes);
  quiet_lock const lock(mutex_);
  set_caught(at, bytes, host_access::read);
}

void guarded_range::set_host_side(std::uint64_t at, std::uint64_t bytes, int fd,
                                  std::uint64_t file_offset) {
  quiet_lock const lock(mutex_);
  forget(pages_of(at, bytes));
  shared_range::set_host_side(at, bytes, fd, file_offset);
  if (fd < 0) set_caught(at, bytes, host_access::read);
}

void guarded_range::detach(std::uint64_t at, std::uint64_t bytes) noexcept {
  {
    quiet_lock const lock(mutex_);
    forget(pages_of(at, bytes));
  }
  shared_range::detach(at, bytes);
}

void guarded_range::begin_use(std::uint64_t at, std::uint64_t bytes, bool writes) {
  if constexpr (hands_over) {
    quiet_lock const lock(mutex_);
    forget(pages_of(at, bytes));
  }
  shared_range::begin_use(at, bytes, writes);
}

bool guarded_range::end_use(std::uint64_t at, std::uint64_t bytes) noexcept {
  if (!shared_range::end_use(at, bytes)) return false;
  if constexpr (hands_over) {
    quiet_lock const lock(mutex_);
    set_caught(at, bytes, host_access::none);
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
void guarded_range::set_caught(std::uint64_t at, std::uint64_t bytes, host_access to) noexcept try {
  auto const pages = pages_of(at, bytes);
  auto* const first = address_of(pages);
  if (faults_ == nullptr || has_given_up_ || !faults_->add(first, bytes_of(pages))) return;
  // A child of fork() would have the pages without the faults.
  bool const is_set = ::madvise(first, bytes_of(pages), MADV_DONTFORK) == 0 &&
                      ::madvise(first, bytes_of(pages), MADV_DONTNEED) == 0;
  try {
    caught_.add(pages);
    set_allowed(pages, to);
    if (is_set && set_protection(first, bytes_of(pages), host_access::read_write)) return;
  } catch (std::bad_alloc const&) {
  }
  forget(pages);
  static_cast<void>(set_protection(first, bytes_of(pages), to));
} catch (std::bad_alloc const&) {
}

// What the pages allow stays. The mapping allows it from now on, and no more. Touches that wait
// meet that.
void guarded_range::leave_to_system(block_run pages) {
  auto const set = [&](block_run run, host_access to) {
    static_cast<void>(set_protection(address_of(run), bytes_of(run), to));
  };
  for (auto const& run : caught_.take(pages)) {
    set(run, host_access::none);
    for (auto const& some : readable_.take(run)) set(some, host_access::read);
    for (auto const& some : writable_.take(run)) set(some, host_access::read_write);
    faults_->remove(address_of(run), bytes_of(run));
  }
}

// Pages that are caught get a protection without access. Mappings may replace them then.
void guarded_range::forget(block_run pages) noexcept try {
  if (faults_ == nullptr) return;
  for (auto const& run : caught_.within(pages)) {
    static_cast<void>(set_protection(address_of(run), bytes_of(run), host_access::none));
    faults_->remove(address_of(run), bytes_of(run));
  }
  set_allowed(pages, host_access::none);
  caught_.take(pages);
} catch (std::bad_alloc const&) {
  // They count as caught still. Touches of them are let through, and meet the mapping.
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

// What cannot be protected loses its entries, so that the next touch is seen.
bool guarded_range::set_entries(block_run pages, host_access to) noexcept {
  auto* const first = address_of(pages);
  bool const keeps = to != host_access::none &&
                     faults_->set_protected(first, bytes_of(pages), to == host_access::read);
  return keeps || ::madvise(first, bytes_of(pages), MADV_DONTNEED) == 0;
}

int guarded_range::protect(std::uint64_t at, std::uint64_t bytes, host_access to) noexcept try {
  if (faults_ == nullptr) return shared_range::protect(at, bytes, to);
  quiet_lock const lock(mutex_);
  auto const pages = pages_of(at, bytes);
  block_runs others;
  others.add(pages);
  for (auto const& run : caught_.within(pages)) {
    others.take(run);
    set_allowed(run, to);
    if (!set_entries(run, to)) return ENOMEM;
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

// By the library's own addresses.
bool guarded_range::give_memory(block_run pages) const noexcept {
  return ::madvise(host_bytes(pages.first * host_page), bytes_of(pages), MADV_POPULATE_WRITE) == 0;
}

void guarded_range::populate(std::uint64_t at, std::uint64_t bytes) noexcept try {
  if (faults_ == nullptr) return shared_range::populate(at, bytes);
  quiet_lock const lock(mutex_);
  for (auto const& run : readable_.within(pages_of(at, bytes))) {
    static_cast<void>(give_memory(run));
    for (auto const& some : writable_.within(run)) map_data(some, false);
    map_data(run, true);  // those that have none yet
  }
} catch (std::bad_alloc const&) {
}

bool guarded_range::lets_through(std::uint64_t at, bool writes) noexcept try {
  quiet_lock const lock(mutex_);
  std::uint64_t const page = at / host_page;
  if (caught_.contains(page)) {
    bool const may_write = writable_.contains(page);
    if (writes ? !may_write : !readable_.contains(page)) return false;
    auto const& allowed = may_write ? writable_ : readable_;
    for (auto const& run : allowed.within(around(page, pages_with_memory))) {
      if (give_memory(run) || !run.contains(page)) continue;
      // It says what is wrong, as with any memory that it does not have.
      leave_to_system({page, page + 1});
      return true;
    }
    for (auto const& run : allowed.within(around(page, pages_with_entries))) {
      if (may_write) static_cast<void>(set_entries(run, host_access::read_write));
      map_data(run, !may_write);
    }
  }
  wake(at);
  return true;
} catch (std::bad_alloc const&) {
  wake(at);
  return true;
}

void guarded_range::wake(std::uint64_t at) const noexcept {
  faults_->wake(base() + at / host_page * host_page, host_page);
}

void guarded_range::give_up(std::uint64_t at) noexcept {
  quiet_lock const lock(mutex_);
  forget(pages_of(at / host_page * host_page, host_page));
}

void guarded_range::give_up_all() noexcept try {
  quiet_lock const lock(mutex_);
  has_given_up_ = true;
  for (auto const& run : caught_.runs()) leave_to_system(run);
} catch (std::bad_alloc const&) {
}

}  // namespace gpufs::shared
