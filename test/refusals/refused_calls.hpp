// Calls of the system and of the device that fail when a test says so. The linker leads the calls
// of calls.txt here (--wrap).
#pragma once

#include <test/support/in_library.hpp>

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace gpufs::test {

/// The calls that can be refused.
enum class refusable : unsigned {
  open,
  direct_open,  ///< open(O_DIRECT)
  stat,
  lstat,
  fstat,
  fstatfs,
  statx,
  get_or_set_flags,  ///< fcntl
  duplicate,         ///< fcntl(F_DUPFD_CLOEXEC)
  read,
  write,
  pread,
  pwrite,
  preadv2,
  pwritev,
  fdatasync,
  ftruncate,
  fadvise,
  close,
  unlink,
  read_symlink,
  ring_setup,
  ring_submit,
  ring_wait,
  ring_result,  ///< of a read, as io_uring_peek_batch_cqe fetches it
  ring_buffers,
  ring_files,
  ring_file,
  ring_clone,   ///< syscall(io_uring_register), to share registered buffers,
  ring_enable,  ///< and to enable a ring
  cachestat,    ///< syscall(cachestat)
  thread,
  thread_name,
  timer_slack,
  sleep,
  semaphore_wait,
  get_limit,
  set_limit,
  memory_size,  ///< sysconf(_SC_PHYS_PAGES)
  aligned_alloc,
  mmap,
  shared_map,   ///< syscall(mmap), for shared addresses
  memory_file,  ///< memfd_create
  punch_hole,   ///< fallocate
  seek_data,    ///< lseek
  mprotect,
  poll,           ///< of userfaultfd, in the thread that reads it,
  event_counter,  ///< and eventfd, which ends that thread
  device_available,
  device_number,
  device_current,
  device_thread,
  device_copy,  ///< host memory to the device,
  device_copy_on_stream,
  device_copy_to_pinned,
  device_copy_back,
  device_zero,
  device_stream,
  device_stream_done,
  device_window,
  device_store,
  device_chunk,  ///< shared_range::add_device
  host_chunk,    ///< shared_range::add_host
  count
};

/// Outcomes beside errors of the system.
enum outcome : int {
  few_bytes = 10'000,  ///< moves some bytes only; io_uring_submit: starts one read only
  no_byte,             ///< moves none
  refused_file,        ///< of device_window: this file,
  refused_by_device,   ///< or the device. Of other calls of the device: throws device_error
};

/// What the program may notice of a refusal.
enum class effect {
  none,   ///< gpufs does without the call
  error,  ///< a call of gpufs may return the error, or throw
};

struct refusable_call {
  refusable call;
  char const* name;
  effect may;
  std::vector<int> outcomes;  ///< errors of its manual page that a caller can meet
};

/// One for each of `refusable`.
[[nodiscard]] std::span<refusable_call const> refusable_calls();

/// Calls that the library makes only for shared memory.
[[nodiscard]] bool is_of_shared_memory(refusable call);
/// Of these, the ones that need userfaultfd.
[[nodiscard]] bool is_of_user_faults(refusable call);

/// Counts calls while it lives: those of a thread in library(), and those of the library's threads
/// at any time.
class call_counter {
 public:
  call_counter();
  ~call_counter();
  call_counter(call_counter const&) = delete;
  call_counter& operator=(call_counter const&) = delete;
  [[nodiscard]] static long count_of(refusable call);
};

enum class refused { once, from_then_on };

/// While it lives, call number `n` of `which` has the outcome `what`, or all from there on.
class refusal {
 public:
  refusal(refusable which, long n, int what, refused how_long);
  ~refusal();
  refusal(refusal const&) = delete;
  refusal& operator=(refusal const&) = delete;
  /// Of the last one. It stays after its end.
  [[nodiscard]] static bool happened();
  [[nodiscard]] static refusable of();
};

/// While it lives, all calls of one kind are refused, beside a refusal.
class without {
 public:
  without(refusable which, int error);
  ~without();
  without(without const&) = delete;
  without& operator=(without const&) = delete;
};

}  // namespace gpufs::test
