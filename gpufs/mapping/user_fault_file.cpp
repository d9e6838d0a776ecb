#include <gpufs/base/above_stderr.hpp>
#include <gpufs/device.hpp>
#include <gpufs/mapping/user_fault_file.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpufs::shared {

namespace {

constexpr std::uint64_t page = 4096;

// Of Linux 6.4. The headers of the oldest system that builds this do not have it.
constexpr std::uint64_t map_protected = 1ull << 1;

// The device node is for users who may open it.
int open_file() noexcept {
  auto const by_call = int(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (by_call >= 0) return by_call;
  int const error = errno;
  int const node = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (node < 0) {
    errno = error;
    return -1;
  }
  constexpr unsigned long make_new = _IO(0xAA, 0x00);  // USERFAULTFD_IOC_NEW, of Linux 6.1
  int const by_node = ::ioctl(node, make_new, O_CLOEXEC | O_NONBLOCK);
  ::close(node);
  return by_node;
}

uffdio_range range_of(void const* first, std::uint64_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(first), bytes};
}

// Errors that say "try again" come while the program changes its mappings.
template <class Argument>
int control(int file, unsigned long what, Argument& argument) noexcept {
  int result;
  do result = ::ioctl(file, what, &argument);
  while (result != 0 && (errno == EAGAIN || errno == EINTR));
  return result;
}

bool has_all_calls(int file) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
                 UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_THREAD_ID;
  return ::ioctl(file, UFFDIO_API, &api) == 0;
}

int register_range(int file, void* first, std::uint64_t bytes) noexcept {
  uffdio_register what{};
  what.range = range_of(first, bytes);
  what.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP;
  return control(file, UFFDIO_REGISTER, what);
}

// Whether an entry can be made that is protected from the first moment on.
bool maps_protected(int file) {
  int const memory = ::memfd_create("gpufs look at userfaultfd", MFD_CLOEXEC);
  if (memory < 0) return false;
  bool is_done = false;
  if (::ftruncate(memory, page) == 0 && ::fallocate(memory, 0, 0, page) == 0) {
    void* const at = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (at != MAP_FAILED) {
      uffdio_continue what{};
      what.range = range_of(at, page);
      what.mode = map_protected;
      is_done = register_range(file, at, page) == 0 && control(file, UFFDIO_CONTINUE, what) == 0;
      ::munmap(at, page);
    }
  }
  ::close(memory);
  return is_done;
}

}  // namespace

user_fault_file::user_fault_file() : file_(base::above_stderr(open_file())), stop_(-1) {
  char const* why = nullptr;
  if (file_ < 0)
    why = errno == ENOSYS                     ? "this system has none"
          : errno == EPERM || errno == EACCES ? "this process may not have it"
                                              : std::strerror(errno);
  else if (!has_all_calls(file_) || !maps_protected(file_))
    why = "it cannot protect pages of memory files here";
  else if ((stop_ = base::above_stderr(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) < 0)
    why = "no descriptor is left";
  if (why == nullptr) return;
  if (file_ >= 0) ::close(file_);
  throw device_error(std::string("userfaultfd: ") + why +
                     "; it needs Linux 6.4 and CAP_SYS_PTRACE, access to /dev/userfaultfd or "
                     "vm.unprivileged_userfaultfd = 1");
}

user_fault_file::~user_fault_file() {
  ::close(file_);
  ::close(stop_);
}

bool user_fault_file::add(void* first, std::uint64_t bytes) const noexcept {
  return register_range(file_, first, bytes) == 0;
}

bool user_fault_file::remove(void* first, std::uint64_t bytes) const noexcept {
  auto what = range_of(first, bytes);
  bool const is_done = control(file_, UFFDIO_UNREGISTER, what) == 0;
  wake(first, bytes);
  return is_done;
}

void user_fault_file::map(void* first, std::uint64_t bytes, bool is_protected) const noexcept {
  auto const begin = reinterpret_cast<std::uintptr_t>(first);
  for (auto at = begin; at < begin + bytes;) {
    uffdio_continue what{};
    what.range = {at, begin + bytes - at};
    what.mode = UFFDIO_CONTINUE_MODE_DONTWAKE | (is_protected ? map_protected : 0);
    if (::ioctl(file_, UFFDIO_CONTINUE, &what) == 0) return;
    if (errno == EINTR) continue;
    if (what.mapped > 0)
      at += std::uint64_t(what.mapped);
    else if (errno != EAGAIN)
      at += page;  // it has an entry, or the file has lost its memory: the next touch is told of
  }
}

bool user_fault_file::set_protected(void* first, std::uint64_t bytes, bool to) const noexcept {
  uffdio_writeprotect what{};
  what.range = range_of(first, bytes);
  what.mode = to ? UFFDIO_WRITEPROTECT_MODE_WP : UFFDIO_WRITEPROTECT_MODE_DONTWAKE;
  return control(file_, UFFDIO_WRITEPROTECT, what) == 0;
}

void user_fault_file::wake(void* first, std::uint64_t bytes) const noexcept {
  auto what = range_of(first, bytes);
  control(file_, UFFDIO_WAKE, what);
}

std::optional<stopped_access> user_fault_file::next() const noexcept {
  // A touch whose thread has ended is told of and not there.
  constexpr unsigned most_fruitless = 1000;
  for (unsigned fruitless = 0; fruitless < most_fruitless; ++fruitless) {
    std::array<pollfd, 2> both{pollfd{file_, POLLIN, 0}, pollfd{stop_, POLLIN, 0}};
    if (::poll(both.data(), both.size(), -1) < 0) continue;
    if (both[1].revents != 0) return std::nullopt;
    uffd_msg message{};
    if (::read(file_, &message, sizeof message) != ssize_t(sizeof message)) continue;
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    auto const& fault = message.arg.pagefault;
    return stopped_access{std::uintptr_t(fault.address),
                          (fault.flags & (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP)) != 0,
                          pid_t(fault.feat.ptid)};
  }
  return std::nullopt;
}

void user_fault_file::stop() const noexcept {
  std::uint64_t const one = 1;
  auto const ignored = ::write(stop_, &one, sizeof one);
  static_cast<void>(ignored);
}

}  // namespace gpufs::shared
