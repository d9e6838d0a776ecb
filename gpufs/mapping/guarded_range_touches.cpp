// Touches that userfaultfd has stopped: they go through, or the page is given up.
#include <gpufs/mapping/guarded_range.hpp>
#include <gpufs/mapping/page_runs.hpp>
#include <gpufs/mapping/quiet_lock.hpp>

#include <new>

namespace gpufs::shared {

using device_memory::host_access;
using device_memory::host_page;

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
    auto const near = around(page, pages_with_entries);
    if (may_write) {
      for (auto const& run : writable_.within(near)) widen(run);
    }
    map_allowed(near);
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

void guarded_range::give_up(std::uint64_t at) noexcept try {
  quiet_lock const lock(mutex_);
  close(at / host_page);
} catch (std::bad_alloc const&) {
  wake(at);  // it comes again
}

void guarded_range::give_up_all() noexcept {
  quiet_lock const lock(mutex_);
  has_given_up_ = true;
  while (!caught_.empty()) {
    try {
      for (auto const& run : caught_.runs()) leave_to_system(run);
    } catch (std::bad_alloc const&) {  // once more: others are giving memory back
    }
  }
}

// What the pages allow stays. The mapping allows it from now on, and no more. Touches that wait
// meet that. Where the system has no more mappings it allows less, until protect().
void guarded_range::leave_to_system(block_run pages) {
  auto const set = [&](block_run run, host_access to) {
    static_cast<void>(set_protection(begin_of(run), bytes_of(run), to));
  };
  for (auto const& run : caught_.within(pages)) {
    set(run, host_access::none);
    for (auto const& some : readable_.within(run)) set(some, host_access::read);
    for (auto const& some : writable_.within(run)) set(some, host_access::read_write);
    faults_->remove(begin_of(run), bytes_of(run));
    set_allowed(run, host_access::none);
    caught_.take(run);
  }
}

// One page has a protection without access. Where the system has no mappings to set one page apart,
// all of its neighbours have it: protect() opens them again.
void guarded_range::close(std::uint64_t page) {
  block_run closed{page, page + 1};
  auto const is_closed = [&] {
    return set_protection(begin_of(closed), bytes_of(closed), host_access::none) &&
           faults_->remove(begin_of(closed), bytes_of(closed));
  };
  if (!caught_.contains(page)) return wake(page * host_page);
  if (!is_closed()) {
    for (auto const& run : caught_.runs()) {
      if (run.contains(page)) closed = run;
    }
    static_cast<void>(is_closed());
  }
  set_allowed(closed, host_access::none);
  caught_.take(closed);
}

}  // namespace gpufs::shared
