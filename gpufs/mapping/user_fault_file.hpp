// userfaultfd(2): the system stops threads at accesses to registered pages, and tells of them.
#pragma once

#include <cstdint>
#include <optional>

#include <sys/types.h>

namespace gpufs::shared {

/// An access that was stopped. Its thread waits for wake().
struct stopped_access {
  std::uintptr_t address;
  bool writes;
  pid_t thread;
};

/// The calls of userfaultfd(2) that shared mappings of memory files need. A registered page without
/// an entry in the page table stops its reader. An entry that is protected stops its writer. System
/// calls are stopped as the program's own accesses are.
///
/// Addresses and numbers of bytes are multiples of 4096. Only one thread may call next(). Any
/// thread calls the others.
class user_fault_file {
 public:
  /// Throws device_error with the reason and the remedy: the system has no such calls, or does not
  /// permit them.
  user_fault_file();
  ~user_fault_file();
  user_fault_file(user_fault_file const&) = delete;
  user_fault_file& operator=(user_fault_file const&) = delete;

  /// From now on accesses are stopped where there is no entry, or a protected one. Returns false
  /// if the system refuses.
  [[nodiscard]] bool add(void* first, std::uint64_t bytes) const noexcept;
  /// Ends that, and wakes all that wait there. Returns false if the system has no more mappings:
  /// it refuses to end it for a part.
  bool remove(void* first, std::uint64_t bytes) const noexcept;

  /// Makes entries for pages that have none, protected or not. The file has memory there.
  void map(void* first, std::uint64_t bytes, bool is_protected) const noexcept;
  /// Protects all pages from writes, those without an entry as well, or no page any more. No write
  /// succeeds any more once it is back. Returns false if the system has no memory for its page
  /// tables.
  [[nodiscard]] bool set_protected(void* first, std::uint64_t bytes, bool to) const noexcept;
  /// Lets all that wait there try again.
  void wake(void* first, std::uint64_t bytes) const noexcept;

  /// Waits for the next access that is stopped. Nothing: stop() was called, or the system tells of
  /// no more.
  [[nodiscard]] std::optional<stopped_access> next() const noexcept;
  void stop() const noexcept;

 private:
  int file_;
  int stop_;
};

}  // namespace gpufs::shared
