// The functions to which the linker leads calls (--wrap): each asks whether to refuse, and else
// makes the true call.
#include <gpufs/device.hpp>
#include <gpufs/device/file_window.hpp>
#include <gpufs/device/memory.hpp>

#include <test/refusals/refused_calls.hpp>

#include <liburing.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace gpufs::test {

namespace {

constexpr auto calls = std::size_t(refusable::count);
enum class mode { off, count, refuse };

std::atomic<mode> now{mode::off};
std::array<std::atomic<long>, calls> counts;
std::atomic<refusable> target{refusable::count};
std::atomic<int> outcome_of_target{0};
std::atomic<refusable> never{refusable::count};  // see `without`
std::atomic<int> never_error{0};
std::atomic<bool> goes_on{false};
std::atomic<long> left{0};  // calls before the one that is refused

constexpr std::size_t few = 99;

thread_local bool is_librarys = false;  // a thread that the library has started

enum class whose { librarys, anyones };

// The outcome that a call shall have. 0: the true call is made.
int asked(refusable which, whose who = whose::librarys) {
  auto const what = now.load(std::memory_order_acquire);
  if (who == whose::librarys && !in_library && !is_librarys) return 0;
  if (which == never.load(std::memory_order_relaxed)) return never_error;
  if (what == mode::off) return 0;
  if (what == mode::count) counts[std::size_t(which)].fetch_add(1, std::memory_order_relaxed);
  if (what == mode::count || which != target.load(std::memory_order_relaxed)) return 0;
  auto const before = left.fetch_sub(1, std::memory_order_relaxed);
  bool const refuses = before == 0 || (before < 0 && goes_on.load(std::memory_order_relaxed));
  return refuses ? outcome_of_target.load(std::memory_order_relaxed) : 0;
}

// For calls that return -1 and set errno.
bool fails(refusable which, whose who = whose::librarys) {
  int const error = asked(which, who);
  if (error != 0) errno = error;
  return error != 0;
}

// For calls of the device.
void may_throw(refusable which) {
  if (asked(which) != 0) throw device_error("the test refuses this call of the device");
}

}  // namespace

call_counter::call_counter() {
  for (auto& n : counts) n = 0;
  now = mode::count;
}
call_counter::~call_counter() { now = mode::off; }
long call_counter::count_of(refusable call) { return counts[std::size_t(call)]; }

refusal::refusal(refusable which, long n, int what, refused how_long) {
  target = which;
  outcome_of_target = what;
  goes_on = how_long == refused::from_then_on;
  left = n;
  now = mode::refuse;
}
refusal::~refusal() { now = mode::off; }
bool refusal::happened() { return left < 0; }
refusable refusal::of() { return target; }

without::without(refusable which, int error) {
  never_error = error;
  never = which;
}
without::~without() { never = refusable::count; }

std::span<refusable_call const> refusable_calls() {
  using enum refusable;
  constexpr auto error = effect::error, none = effect::none;
  static std::vector<refusable_call> const all{
      {open,
       "open",
       error,
       {EACCES, EDQUOT, EINTR, EIO, ELOOP, EMFILE, ENFILE, ENODEV, ENOENT, ENOMEM, ENOSPC,
        EOVERFLOW, EPERM, EROFS, ETXTBSY}},
      {direct_open, "open(O_DIRECT)", none, {EINTR, EINVAL, EMFILE, ENFILE, ENOMEM, EPERM}},
      {stat, "stat", error, {EACCES, EIO, ELOOP, ENOENT, ENOMEM, ENOTDIR, EOVERFLOW}},
      {lstat, "lstat", none, {EACCES, EIO, ENOENT, ENOMEM}},
      {fstat, "fstat", error, {EIO, ENOMEM, EOVERFLOW, ESTALE}},
      {fstatfs, "fstatfs", none, {EINTR, EIO, ENOMEM, ENOSYS, EOVERFLOW}},
      {statx, "statx", none, {EINVAL, ENOMEM, ENOSYS}},
      {get_or_set_flags, "fcntl(F_SETFL)", error, {EAGAIN, EINVAL, EPERM}},
      {duplicate, "fcntl(F_DUPFD)", none, {EMFILE}},
      {pread, "pread", error, {EAGAIN, EINTR, EINVAL, EIO, ENOMEM, EOVERFLOW, ESTALE, few_bytes}},
      {read, "read", error, {EAGAIN, EINTR, EINVAL, EIO, EISDIR, few_bytes}},
      {write, "write", error, {EAGAIN, EDQUOT, EFBIG, EINTR, EIO, ENOSPC, EPIPE, few_bytes}},
      {pwrite, "pwrite", error, {EDQUOT, EFBIG, EINTR, EIO, ENOSPC, few_bytes}},
      {preadv2, "preadv2", none, {EAGAIN, EINTR, EINVAL, EIO, EOPNOTSUPP}},
      {pwritev,
       "pwritev",
       error,
       {EAGAIN, EDQUOT, EFBIG, EINTR, EINVAL, EIO, ENOSPC, EPERM, ESTALE, few_bytes, no_byte}},
      {fdatasync, "fdatasync", error, {EDQUOT, EINTR, EINVAL, EIO, ENOSPC, EROFS}},
      {ftruncate, "ftruncate", error, {EFBIG, EINTR, EINVAL, EIO, ENOSPC, EPERM, EROFS, ETXTBSY}},
      {fadvise, "posix_fadvise", error, {EINVAL, ENOSYS}},
      {close, "close", error, {EDQUOT, EINTR, EIO, ENOSPC}},
      {unlink, "unlink", error, {EACCES, EBUSY, EIO, ELOOP, ENOENT, ENOMEM, ENOTDIR, EPERM, EROFS}},
      {read_symlink, "readlink", none, {EACCES, EIO, ENOENT, ENOMEM}},
      {ring_setup, "io_uring_setup", error, {EMFILE, ENFILE, ENOMEM, ENOSYS, EPERM}},
      {ring_submit, "io_uring_enter", none, {EAGAIN, EBUSY, EINTR, ENOMEM, EPERM, few_bytes}},
      {ring_wait, "io_uring_enter, to wait", none, {EAGAIN, EBUSY, EINTR, EPERM}},
      {ring_result,
       "a read of a ring",
       error,
       {EAGAIN, ECANCELED, EINTR, EINVAL, EIO, ENOMEM, few_bytes}},
      {ring_buffers, "io_uring_register_buffers", none, {EBUSY, EFAULT, ENOMEM, EOPNOTSUPP, EPERM}},
      {ring_files, "io_uring_register_files_sparse", none, {EINVAL, EMFILE, ENOMEM, EPERM}},
      {ring_file, "io_uring_register_files_update", none, {EBADF, EMFILE, ENOMEM, EPERM}},
      {ring_clone, "io_uring_register(clone)", none, {EBUSY, EINVAL, ENOMEM, EPERM}},
      {ring_enable, "io_uring_register(enable)", error, {EBADFD, EEXIST, EINVAL, ENOMEM, EPERM}},
      {cachestat, "cachestat", none, {ENOSYS, EOPNOTSUPP, EPERM}},
      {thread, "pthread_create", error, {EAGAIN}},
      {thread_name, "pthread_setname_np", none, {EACCES, ENOENT}},
      {timer_slack, "prctl", none, {EINVAL}},
      {sleep, "nanosleep", none, {EINTR}},
      {semaphore_wait, "sem_wait", none, {EINTR}},
      {get_limit, "getrlimit", none, {EPERM}},
      {set_limit, "setrlimit", none, {EPERM}},
      {memory_size, "sysconf", none, {EINVAL}},
      {aligned_alloc, "aligned_alloc", none, {ENOMEM}},
      {mmap, "mmap", error, {EAGAIN, ENOMEM}},
      {shared_map, "mmap of shared addresses", error, {EAGAIN, ENOMEM}},
      {memory_file, "memfd_create", error, {EMFILE, ENFILE, ENOMEM}},
      {punch_hole, "fallocate", none, {EINTR, ENOSYS, EOPNOTSUPP}},
      {seek_data, "lseek", none, {EINVAL}},
      {mprotect, "mprotect", error, {ENOMEM}},
      {poll, "poll", none, {EINTR, ENOMEM}},
      {event_counter, "eventfd", none, {EMFILE, ENFILE, ENOMEM}},
      {device_available, "device_available", error, {refused_by_device}},
      {device_number, "current_device_number", error, {refused_by_device}},
      {device_current, "make_device_current", error, {refused_by_device}},
      {device_thread, "enter_library_thread", none, {refused_by_device}},
      {device_copy, "copy_to_device", error, {refused_by_device}},
      {device_copy_on_stream, "copy_to_device on a stream", error, {refused_by_device}},
      {device_copy_to_pinned, "copy_to_pinned", error, {refused_by_device}},
      {device_copy_back, "copy_to_host", error, {refused_by_device}},
      {device_zero, "zero_device", error, {refused_by_device}},
      {device_stream, "stream::stream", error, {refused_by_device}},
      {device_stream_done, "stream::done", error, {refused_by_device}},
      {device_window, "map_file_window", none, {refused_file, refused_by_device}},
      {device_store, "store_device_words", none, {refused_by_device}},
      {device_chunk, "add_device", error, {refused_by_device}},
      {host_chunk, "add_host", error, {refused_by_device}},
  };
  return all;
}

bool is_of_shared_memory(refusable call) {
  using enum refusable;
  return call == read || call == write || call == pwrite || call == shared_map ||
         call == memory_file || call == punch_hole || call == seek_data || call == device_chunk ||
         call == host_chunk || is_of_user_faults(call);
}

bool is_of_user_faults(refusable call) {
  return call == refusable::poll || call == refusable::event_counter;
}

}  // namespace gpufs::test

using namespace gpufs;
using namespace gpufs::test;

// __real_NAME is the true call, __wrap_NAME is called in its place.
extern "C" {

// Files.

int __real_open(char const*, int, ...);
int __wrap_open(char const* path, int flags, ...) {
  if (fails((flags & O_DIRECT) != 0 ? refusable::direct_open : refusable::open)) return -1;
  std::va_list more;
  va_start(more, flags);
  mode_t const mode = (flags & O_CREAT) != 0 ? va_arg(more, unsigned) : 0;
  va_end(more);
  return __real_open(path, flags, mode);
}

int __real_stat(char const*, struct ::stat*);
int __wrap_stat(char const* path, struct ::stat* out) {
  return fails(refusable::stat) ? -1 : __real_stat(path, out);
}
int __real_lstat(char const*, struct ::stat*);
int __wrap_lstat(char const* path, struct ::stat* out) {
  return fails(refusable::lstat) ? -1 : __real_lstat(path, out);
}
int __real_fstat(int, struct ::stat*);
int __wrap_fstat(int fd, struct ::stat* out) {
  return fails(refusable::fstat) ? -1 : __real_fstat(fd, out);
}
int __real_fstatfs(int, struct ::statfs*);
int __wrap_fstatfs(int fd, struct ::statfs* out) {
  return fails(refusable::fstatfs) ? -1 : __real_fstatfs(fd, out);
}
int __real_statx(int, char const*, int, unsigned, struct ::statx*);
int __wrap_statx(int fd, char const* path, int flags, unsigned mask, struct ::statx* out) {
  return fails(refusable::statx) ? -1 : __real_statx(fd, path, flags, mask, out);
}

int __real_fcntl(int, int, ...);
int __wrap_fcntl(int fd, int command, ...) {
  if (fails(command == F_DUPFD_CLOEXEC ? refusable::duplicate : refusable::get_or_set_flags))
    return -1;
  std::va_list more;
  va_start(more, command);
  long const argument = va_arg(more, long);
  va_end(more);
  return __real_fcntl(fd, command, argument);
}

ssize_t __real_pread(int, void*, std::size_t, off_t);
ssize_t __wrap_pread(int fd, void* to, std::size_t count, off_t offset) {
  int const what = asked(refusable::pread);
  if (what == few_bytes) return __real_pread(fd, to, std::min(count, few), offset);
  if (what == 0) return __real_pread(fd, to, count, offset);
  errno = what;
  return -1;
}
ssize_t __real_read(int, void*, std::size_t);
ssize_t __wrap_read(int fd, void* to, std::size_t count) {
  int const what = asked(refusable::read);
  if (what == few_bytes) return __real_read(fd, to, std::min(count, few));
  if (what == 0) return __real_read(fd, to, count);
  errno = what;
  return -1;
}
ssize_t __real_write(int, void const*, std::size_t);
ssize_t __wrap_write(int fd, void const* from, std::size_t count) {
  int const what = asked(refusable::write);
  if (what == few_bytes) return __real_write(fd, from, std::min(count, few));
  if (what == 0) return __real_write(fd, from, count);
  errno = what;
  return -1;
}
ssize_t __real_pwrite(int, void const*, std::size_t, off_t);
ssize_t __wrap_pwrite(int fd, void const* from, std::size_t count, off_t offset) {
  int const what = asked(refusable::pwrite);
  if (what == few_bytes) return __real_pwrite(fd, from, std::min(count, few), offset);
  if (what == 0) return __real_pwrite(fd, from, count, offset);
  errno = what;
  return -1;
}
ssize_t __real_preadv2(int, ::iovec const*, int, off_t, int);
ssize_t __wrap_preadv2(int fd, ::iovec const* parts, int count, off_t offset, int flags) {
  return fails(refusable::preadv2) ? -1 : __real_preadv2(fd, parts, count, offset, flags);
}
ssize_t __real_pwritev(int, ::iovec const*, int, off_t);
ssize_t __wrap_pwritev(int fd, ::iovec const* parts, int count, off_t offset) {
  int const what = asked(refusable::pwritev);
  if (what == 0) return __real_pwritev(fd, parts, count, offset);
  if (what == no_byte) return 0;
  if (what == few_bytes) {
    ::iovec const first{parts[0].iov_base, std::min(parts[0].iov_len, few)};
    return __real_pwritev(fd, &first, 1, offset);
  }
  errno = what;
  return -1;
}

int __real_fdatasync(int);
int __wrap_fdatasync(int fd) { return fails(refusable::fdatasync) ? -1 : __real_fdatasync(fd); }
int __real_ftruncate(int, off_t);
int __wrap_ftruncate(int fd, off_t size) {
  return fails(refusable::ftruncate) ? -1 : __real_ftruncate(fd, size);
}
int __real_posix_fadvise(int, off_t, off_t, int);
int __wrap_posix_fadvise(int fd, off_t offset, off_t length, int advice) {
  int const error = asked(refusable::fadvise);
  return error != 0 ? error : __real_posix_fadvise(fd, offset, length, advice);
}
int __real_unlink(char const*);
int __wrap_unlink(char const* path) { return fails(refusable::unlink) ? -1 : __real_unlink(path); }

// Linux closes the descriptor, whatever it says.
int __real_close(int);
int __wrap_close(int fd) {
  int const error = asked(refusable::close);
  int const result = __real_close(fd);
  if (error == 0) return result;
  errno = error;
  return -1;
}

// io_uring. These return -errno.

int __real_io_uring_queue_init(unsigned, ::io_uring*, unsigned);
int __wrap_io_uring_queue_init(unsigned entries, ::io_uring* ring, unsigned flags) {
  int const error = asked(refusable::ring_setup);
  return error != 0 ? -error : __real_io_uring_queue_init(entries, ring, flags);
}
int __real_io_uring_submit(::io_uring*);
int __wrap_io_uring_submit(::io_uring* ring) {
  int const what = asked(refusable::ring_submit);
  if (what == 0) return __real_io_uring_submit(ring);
  if (what != few_bytes) return -what;
  // Shows the kernel the first entry only.
  auto& queue = ring->sq;
  auto const tail = queue.sqe_tail, first = *queue.khead;
  if (tail - first > 1) queue.sqe_tail = first + 1;
  int const started = __real_io_uring_submit(ring);
  queue.sqe_tail = tail;
  return started;
}
int __real_io_uring_wait_cqe_timeout(::io_uring*, ::io_uring_cqe**, ::__kernel_timespec*);
int __wrap_io_uring_wait_cqe_timeout(::io_uring* ring, ::io_uring_cqe** out,
                                     ::__kernel_timespec* time) {
  int const error = asked(refusable::ring_wait);
  return error != 0 ? -error : __real_io_uring_wait_cqe_timeout(ring, out, time);
}
unsigned __real_io_uring_peek_batch_cqe(::io_uring*, ::io_uring_cqe**, unsigned);
unsigned __wrap_io_uring_peek_batch_cqe(::io_uring* ring, ::io_uring_cqe** out, unsigned most) {
  auto const count = __real_io_uring_peek_batch_cqe(ring, out, most);
  for (unsigned i = 0; i < count; ++i) {
    int const what = asked(refusable::ring_result);
    if (what == few_bytes) out[i]->res = std::min(out[i]->res, int(few));
    if (what != 0 && what != few_bytes) out[i]->res = -what;
  }
  return count;
}
int __real_io_uring_register_buffers(::io_uring*, ::iovec const*, unsigned);
int __wrap_io_uring_register_buffers(::io_uring* ring, ::iovec const* parts, unsigned count) {
  int const error = asked(refusable::ring_buffers);
  return error != 0 ? -error : __real_io_uring_register_buffers(ring, parts, count);
}
int __real_io_uring_register_files_sparse(::io_uring*, unsigned);
int __wrap_io_uring_register_files_sparse(::io_uring* ring, unsigned count) {
  int const error = asked(refusable::ring_files);
  return error != 0 ? -error : __real_io_uring_register_files_sparse(ring, count);
}
int __real_io_uring_register_files_update(::io_uring*, unsigned, int const*, unsigned);
int __wrap_io_uring_register_files_update(::io_uring* ring, unsigned first, int const* files,
                                          unsigned count) {
  int const error = asked(refusable::ring_file);
  return error != 0 ? -error : __real_io_uring_register_files_update(ring, first, files, count);
}

long __real_syscall(long, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  constexpr long cachestat = 451, clone_buffers = 30;
  bool const registers = number == SYS_io_uring_register;
  if (registers && b == IORING_REGISTER_ENABLE_RINGS && fails(refusable::ring_enable)) return -1;
  if (registers && b == clone_buffers && fails(refusable::ring_clone)) return -1;
  if (number == cachestat && fails(refusable::cachestat)) return -1;
  // Also in threads of the device: end_use() maps what a call has used.
  if (number == SYS_mmap && fails(refusable::shared_map, whose::anyones)) return -1;
  return __real_syscall(number, a, b, c, d, e, f);
}

// Threads, time and limits.

int __real_pthread_setname_np(pthread_t, char const*);
int __wrap_pthread_setname_np(pthread_t thread, char const* name) {
  // The first call of each of the library's threads.
  if (std::strncmp(name, "gpufs-", 6) == 0) is_librarys = true;
  int const error = asked(refusable::thread_name);
  return error != 0 ? error : __real_pthread_setname_np(thread, name);
}
int __real_prctl(int, ...);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
  return fails(refusable::timer_slack, whose::anyones) ? -1 : __real_prctl(option, a, b, c, d);
}

// An interrupted sleep says that no time is left, so that a caller who goes on comes to an end.
int __real_nanosleep(::timespec const*, ::timespec*);
int __wrap_nanosleep(::timespec const* time, ::timespec* rest) {
  bool const empty = time->tv_sec == 0 && time->tv_nsec == 0;
  bool const interrupted = !empty && asked(refusable::sleep) != 0;
  int const result = __real_nanosleep(time, rest);
  if (!interrupted) return result;
  if (rest != nullptr) *rest = {};
  errno = EINTR;
  return -1;
}
int __real_sem_wait(::sem_t*);
int __wrap_sem_wait(::sem_t* semaphore) {
  return fails(refusable::semaphore_wait) ? -1 : __real_sem_wait(semaphore);
}
int __real_sem_clockwait(::sem_t*, clockid_t, ::timespec const*);
int __wrap_sem_clockwait(::sem_t* semaphore, clockid_t clock, ::timespec const* end) {
  return fails(refusable::semaphore_wait) ? -1 : __real_sem_clockwait(semaphore, clock, end);
}
int __real_poll(::pollfd*, nfds_t, int);
int __wrap_poll(::pollfd* files, nfds_t count, int timeout) {
  return fails(refusable::poll) ? -1 : __real_poll(files, count, timeout);
}
int __real_eventfd(unsigned, int);
int __wrap_eventfd(unsigned begin, int flags) {
  return fails(refusable::event_counter) ? -1 : __real_eventfd(begin, flags);
}
int __real_getrlimit(int, ::rlimit*);
int __wrap_getrlimit(int which, ::rlimit* out) {
  return fails(refusable::get_limit) ? -1 : __real_getrlimit(which, out);
}
int __real_setrlimit(int, ::rlimit const*);
int __wrap_setrlimit(int which, ::rlimit const* limit) {
  return fails(refusable::set_limit) ? -1 : __real_setrlimit(which, limit);
}
long __real_sysconf(int);
long __wrap_sysconf(int name) {
  return name == _SC_PHYS_PAGES && fails(refusable::memory_size) ? -1 : __real_sysconf(name);
}

// Memory.

void* __real_aligned_alloc(std::size_t, std::size_t);
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails(refusable::aligned_alloc) ? nullptr : __real_aligned_alloc(alignment, bytes);
}
// Of the emulated device's stacks, which its own threads make.
void* __real_mmap(void*, std::size_t, int, int, int, off_t);
void* __wrap_mmap(void* at, std::size_t bytes, int access, int flags, int fd, off_t offset) {
  return fails(refusable::mmap, whose::anyones) ? reinterpret_cast<void*>(-1)
                                                : __real_mmap(at, bytes, access, flags, fd, offset);
}
int __real_memfd_create(char const*, unsigned);
int __wrap_memfd_create(char const* name, unsigned flags) {
  return fails(refusable::memory_file) ? -1 : __real_memfd_create(name, flags);
}
int __real_fallocate(int, int, off_t, off_t);
int __wrap_fallocate(int fd, int how, off_t offset, off_t bytes) {
  return fails(refusable::punch_hole) ? -1 : __real_fallocate(fd, how, offset, bytes);
}
off_t __real_lseek(int, off_t, int);
off_t __wrap_lseek(int fd, off_t offset, int from) {
  return fails(refusable::seek_data) ? -1 : __real_lseek(fd, offset, from);
}
int __real_mprotect(void*, std::size_t, int);
int __wrap_mprotect(void* at, std::size_t bytes, int access) {
  return fails(refusable::mprotect, whose::anyones) ? -1 : __real_mprotect(at, bytes, access);
}

}  // extern "C"

namespace gpufs::test {

// C++ functions by their symbols. std::filesystem::read_symlink throws, or stores an error.

using link_name = std::filesystem::path;
link_name true_read_link(link_name const& link) asm(
    "__real__ZNSt10filesystem12read_symlinkERKNS_7__cxx114pathE");
link_name read_link(link_name const& link) asm(
    "__wrap__ZNSt10filesystem12read_symlinkERKNS_7__cxx114pathE");
link_name read_link(link_name const& link) {
  if (int const error = asked(refusable::read_symlink))
    throw std::filesystem::filesystem_error{"read_symlink",
                                            std::error_code{error, std::generic_category()}};
  return true_read_link(link);
}
link_name true_read_link_or_say(link_name const& link, std::error_code& out) asm(
    "__real__ZNSt10filesystem12read_symlinkERKNS_7__cxx114pathERSt10e"
    "rror_code");
link_name read_link_or_say(link_name const& link, std::error_code& out) asm(
    "__wrap__ZNSt10filesystem12read_symlinkERKNS_7__cxx114pathERSt10e"
    "rror_code");
link_name read_link_or_say(link_name const& link, std::error_code& out) {
  if (int const error = asked(refusable::read_symlink)) {
    out = {error, std::generic_category()};
    return {};
  }
  return true_read_link_or_say(link, out);
}

// std::thread. The state is a std::unique_ptr, which comes by reference.
void true_start_thread(void* self, void* state, void (*depend)()) asm(
    "__real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateES"
    "t14default_deleteIS1_EEPFvvE");
void start_thread(void* self, void* state, void (*depend)()) asm(
    "__wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateES"
    "t14default_deleteIS1_EEPFvvE");
void start_thread(void* self, void* state, void (*depend)()) {
  if (int const error = asked(refusable::thread, whose::anyones))
    throw std::system_error{error, std::generic_category()};
  true_start_thread(self, state, depend);
}

// The device. A member function gets its object as the first argument.

bool true_available() asm("__real__ZN5gpufs16device_availableEv");
bool available() asm("__wrap__ZN5gpufs16device_availableEv");
bool available() {
  if (asked(refusable::device_available) != 0) return false;
  return true_available();
}
int true_device_number() asm("__real__ZN5gpufs21current_device_numberEv");
int device_number() asm("__wrap__ZN5gpufs21current_device_numberEv");
int device_number() {
  may_throw(refusable::device_number);
  return true_device_number();
}
void true_make_current(int device) asm("__real__ZN5gpufs19make_device_currentEi");
void make_current(int device) asm("__wrap__ZN5gpufs19make_device_currentEi");
void make_current(int device) {
  may_throw(refusable::device_current);
  true_make_current(device);
}
void true_enter_thread(int device) asm("__real__ZN5gpufs13device_memory20enter_library_threadEi");
void enter_thread(int device) asm("__wrap__ZN5gpufs13device_memory20enter_library_threadEi");
void enter_thread(int device) {
  may_throw(refusable::device_thread);
  true_enter_thread(device);
}
void true_copy_to(void* to, void const* from, std::uint64_t bytes) asm(
    "__real__ZN5gpufs13device_memory14copy_to_deviceEPvPKvm");
void copy_to(void* to, void const* from,
             std::uint64_t bytes) asm("__wrap__ZN5gpufs13device_memory14copy_to_deviceEPvPKvm");
void copy_to(void* to, void const* from, std::uint64_t bytes) {
  may_throw(refusable::device_copy);
  true_copy_to(to, from, bytes);
}
using pieces = std::span<device_memory::pinned_copy const>;
void true_copy_on_stream(stream& on, pieces all) asm(
    "__real__ZN5gpufs13device_memory14copy_to_deviceERNS_6streamESt4s"
    "panIKNS0_11pinned_copyELm18446744073709551615EE");
void copy_on_stream(stream& on, pieces all) asm(
    "__wrap__ZN5gpufs13device_memory14copy_to_deviceERNS_6streamESt4s"
    "panIKNS0_11pinned_copyELm18446744073709551615EE");
void copy_on_stream(stream& on, pieces all) {
  may_throw(refusable::device_copy_on_stream);
  true_copy_on_stream(on, all);
}
void true_copy_to_pinned(stream& on, void* to, void const* from, std::uint64_t bytes) asm(
    "__real__ZN5gpufs13device_memory14copy_to_pinnedERNS_6streamEPvPKvm");
void copy_to_pinned(stream& on, void* to, void const* from, std::uint64_t bytes) asm(
    "__wrap__ZN5gpufs13device_memory14copy_to_pinnedERNS_6streamEPvPKvm");
void copy_to_pinned(stream& on, void* to, void const* from, std::uint64_t bytes) {
  may_throw(refusable::device_copy_to_pinned);
  true_copy_to_pinned(on, to, from, bytes);
}
void true_copy_back(void* to, void const* from, std::uint64_t bytes) asm(
    "__real__ZN5gpufs13device_memory12copy_to_hostEPvPKvm");
void copy_back(void* to, void const* from,
               std::uint64_t bytes) asm("__wrap__ZN5gpufs13device_memory12copy_to_hostEPvPKvm");
void copy_back(void* to, void const* from, std::uint64_t bytes) {
  may_throw(refusable::device_copy_back);
  true_copy_back(to, from, bytes);
}
void true_zero(void* memory,
               std::uint64_t bytes) asm("__real__ZN5gpufs13device_memory11zero_deviceEPvm");
void zero(void* memory,
          std::uint64_t bytes) asm("__wrap__ZN5gpufs13device_memory11zero_deviceEPvm");
void zero(void* memory, std::uint64_t bytes) {
  may_throw(refusable::device_zero);
  true_zero(memory, bytes);
}
void true_add_device(void* range, std::uint64_t at, std::uint64_t bytes, std::uint64_t zeros) asm(
    "__real__ZN5gpufs13device_memory12shared_range10add_deviceEmmm");
void add_device(void* range, std::uint64_t at, std::uint64_t bytes, std::uint64_t zeros) asm(
    "__wrap__ZN5gpufs13device_memory12shared_range10add_deviceEmmm");
void add_device(void* range, std::uint64_t at, std::uint64_t bytes, std::uint64_t zeros) {
  may_throw(refusable::device_chunk);
  true_add_device(range, at, bytes, zeros);
}
bool true_add_host(void* range, std::uint64_t at, std::uint64_t bytes, bool is_written) asm(
    "__real__ZN5gpufs13device_memory12shared_range8add_hostEmmb");
bool add_host(void* range, std::uint64_t at, std::uint64_t bytes,
              bool is_written) asm("__wrap__ZN5gpufs13device_memory12shared_range8add_hostEmmb");
bool add_host(void* range, std::uint64_t at, std::uint64_t bytes, bool is_written) {
  return asked(refusable::host_chunk) == 0 && true_add_host(range, at, bytes, is_written);
}
void true_make_stream(stream* made) asm("__real__ZN5gpufs6streamC1Ev");
void make_stream(stream* made) asm("__wrap__ZN5gpufs6streamC1Ev");
void make_stream(stream* made) {
  may_throw(refusable::device_stream);
  true_make_stream(made);
}
bool true_stream_done(stream const* of) asm("__real__ZNK5gpufs6stream4doneEv");
bool stream_done(stream const* of) asm("__wrap__ZNK5gpufs6stream4doneEv");
bool stream_done(stream const* of) {
  may_throw(refusable::device_stream_done);
  return true_stream_done(of);
}
detail::mapping_result
true_map_window(int fd, std::uint64_t offset, std::uint64_t bytes, detail::file_window& out) asm(
    "__real__ZN5gpufs6detail15map_file_windowEimmRNS0_11file_windowE");
detail::mapping_result
map_window(int fd, std::uint64_t offset, std::uint64_t bytes, detail::file_window& out) asm(
    "__wrap__ZN5gpufs6detail15map_file_windowEimmRNS0_11file_windowE");
detail::mapping_result map_window(int fd, std::uint64_t offset, std::uint64_t bytes,
                                  detail::file_window& out) {
  using detail::mapping_refusal;
  if (int const what = asked(refusable::device_window))
    return {what == refused_file ? mapping_refusal::file : mapping_refusal::device, "the call",
            "the test refuses it"};
  return true_map_window(fd, offset, bytes, out);
}
using words = std::span<std::uint64_t const>;
void true_store_words(std::uint64_t* device, words all) asm(
    "__real__ZN5gpufs6detail18store_device_wordsEPmSt4spanIKmLm184467"
    "44073709551615EE");
void store_words(std::uint64_t* device, words all) asm(
    "__wrap__ZN5gpufs6detail18store_device_wordsEPmSt4spanIKmLm184467"
    "44073709551615EE");
void store_words(std::uint64_t* device, words all) {
  may_throw(refusable::device_store);
  true_store_words(device, all);
}

}  // namespace gpufs::test
