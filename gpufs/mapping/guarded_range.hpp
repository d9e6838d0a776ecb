// A shared range whose pages are protected by userfaultfd instead of mprotect(), where asked for.
#pragma once

#include <gpufs/device/managed_memory.hpp>
#include <gpufs/device/shared_range.hpp>
#include <gpufs/mapping/block_runs.hpp>
#include <gpufs/mapping/user_fault_file.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace gpufs::shared {

/// With userfaultfd no page has a protection of its own. A page has an entry in the page table only
/// if the CPU may read it, and a protected one if it may not write. Entries may also be missing
/// where the access is allowed: they are made when the page is touched.
///
/// Pages of files, and those that were given up, keep protections. So faults of both kinds come.
/// On the emulated device that holds for pages that a call uses, too.
///
/// What a page allows is changed under one mutex, with its entry and its protection. While that is
/// under way a page allows less, never more.
class guarded_range : public device_memory::shared_range {
 public:
  /// As shared_range's. If userfaultfd is asked for and refused, it uses mprotect().
  guarded_range(std::uint64_t bytes, bool by_userfaultfd, bool is_guarded);

  /// Null: protections and SIGSEGV do all.
  [[nodiscard]] user_fault_file const* user_faults() const { return faults_.get(); }
  /// Whether system calls wait for bytes, too.
  [[nodiscard]] bool stops_system_calls() const;
  /// Why userfaultfd was refused, or nothing.
  [[nodiscard]] std::string const& why_no_user_faults() const { return why_not_; }

  /// Makes `bytes` zeros in managed memory, and returns their place, which the reservation does not
  /// have. The CPU may always do everything there. Until detach(). Throws device_error.
  [[nodiscard]] std::uint64_t attach_managed(std::uint64_t bytes);
  /// Whether an object may lie at an offset: the reservation has it, or some are managed.
  [[nodiscard]] bool may_have(std::uint64_t at) const {
    // Relaxed: who knows the address of an object knows that it was made.
    return has(at) || has_managed_.load(std::memory_order_relaxed);
  }
  /// The memory that it made there.
  [[nodiscard]] device_memory::managed_memory const& managed_at(std::uint64_t at) const;

  // These are shared_range's, and have its contracts. Managed memory takes protect(), begin_use()
  // and end_use(), which do nothing, and detach().
  void attach(std::uint64_t at, std::uint64_t bytes);
  void set_host_side(std::uint64_t at, std::uint64_t bytes, int fd, std::uint64_t file_offset);
  void detach(std::uint64_t at, std::uint64_t bytes) noexcept;
  [[nodiscard]] bool add_host(std::uint64_t at, std::uint64_t bytes, bool is_written) noexcept;
  [[nodiscard]] int protect(std::uint64_t at, std::uint64_t bytes,
                            device_memory::host_access to) noexcept;
  void drop_host(std::uint64_t at, std::uint64_t bytes) noexcept;
  void populate(std::uint64_t at, std::uint64_t bytes) noexcept;
  void begin_use(std::uint64_t at, std::uint64_t bytes, bool writes);
  [[nodiscard]] bool end_use(std::uint64_t at, std::uint64_t bytes) noexcept;

  /// Gives memory to what has none yet, and entries to what the CPU may read.
  void prepare(std::uint64_t at, std::uint64_t bytes) noexcept;
  /// Memory of objects is not freed while the lock is held: whoever frees some waits. The lock is
  /// not held if another thread keeps memory, or is freeing some.
  [[nodiscard]] std::unique_lock<std::mutex> keep_memory() {
    return std::unique_lock{freeing_, std::try_to_lock};
  }

  /// Makes entries for the page that has `at`, and for neighbours, if the access is allowed. Lets
  /// the threads that wait there try again, then. Returns false if it is not allowed.
  [[nodiscard]] bool lets_through(std::uint64_t at, bool writes) noexcept;
  /// Threads that wait for the page try again.
  void wake(std::uint64_t at) const noexcept;
  /// The page has a protection from now on, and lets nothing through until protect(). Threads
  /// that wait for it get SIGSEGV, or EFAULT in a system call.
  void give_up(std::uint64_t at) noexcept;
  /// All pages have protections from now on, as if userfaultfd had been refused.
  void give_up_all() noexcept;

 private:
  // All of these need the mutex. Runs are of pages.
  void set_caught(std::uint64_t at, std::uint64_t bytes, device_memory::host_access to) noexcept;
  void forget(block_run pages) noexcept;
  void leave_to_system(block_run pages);
  void close(std::uint64_t page);
  void set_allowed(block_run pages, device_memory::host_access to);
  [[nodiscard]] bool narrow(block_run pages, device_memory::host_access to);
  void widen(block_run pages);
  [[nodiscard]] bool drop_entries(block_run pages) const noexcept;
  void map_data(block_run pages, bool is_protected);
  void map_allowed(block_run pages);
  [[nodiscard]] bool give_memory(block_run pages) const noexcept;
  [[nodiscard]] std::byte* begin_of(block_run pages) const;

  std::unique_ptr<user_fault_file const> faults_;
  std::string why_not_;
  std::mutex freeing_;  ///< comes before the other mutex
  mutable std::mutex mutex_;
  bool has_given_up_ = false;
  block_runs in_memory_;  ///< pages whose CPU's side is a memory file
  block_runs caught_;     ///< pages of memory files that userfaultfd protects
  block_runs readable_;   ///< of these, what the CPU may read
  block_runs writable_;   ///< of these, what the CPU may write
  std::map<std::uint64_t, device_memory::managed_memory> managed_;  ///< by their place
  std::atomic<bool> has_managed_{false};                            ///< or had some
};

}  // namespace gpufs::shared
