// Reads with io_uring.
#include <host-daemon/base/idle_policy.hpp>
#include <host-daemon/base/profiler_range.hpp>
#include <host-daemon/engine/pread_engine.hpp>
#include <host-daemon/engine/uring_engine.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <system_error>
#include <utility>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

unsigned limit_of_open_files() {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return unsigned(std::min<rlim_t>(limit.rlim_cur, 1u << 20));
}

// Of Linux 6.12; liburing has it from 2.8 on. All buffers of the ring `source_fd` are cloned.
constexpr unsigned register_clone_buffers = 30;
struct clone_argument {
  std::uint32_t source_fd;
  std::uint32_t reserved[7];
};

}  // namespace

uring_engine::uring_engine(unsigned depth, std::vector<std::span<std::byte>> staging,
                           io_hooks const& hooks, uring_engine* first, ring_users users)
    : depth_{depth}, staging_{std::move(staging)} {
  waiting_.reserve(depth);
  done_.reserve(depth);
  set_up(hooks, users);
  try {
    share_staging(hooks, first);
    register_files(hooks);
  } catch (...) {
    ::io_uring_queue_exit(&ring_);
    throw;
  }
}

uring_engine::~uring_engine() { ::io_uring_queue_exit(&ring_); }

void uring_engine::set_up(io_hooks const& hooks, ring_users users) {
  // One thread submits and looks at the ring often, so the kernel need not interrupt it (Linux
  // 6.0). That thread is another one: so the ring starts disabled and belongs to the thread that
  // enables it. Older kernels answer EINVAL to flags that they do not know.
  constexpr unsigned wishes[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_R_DISABLED |
                                     IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
                                 0};
  int result = -EINVAL;
  for (auto const flags : std::span{wishes}.subspan(users == ring_users::one ? 0 : 1)) {
    std::memset(&ring_, 0, sizeof ring_);
    result = hooks.set_up_ring ? hooks.set_up_ring(unsigned(depth_), &ring_, flags)
                               : ::io_uring_queue_init(unsigned(depth_), &ring_, flags);
    enabled_ = !(flags & IORING_SETUP_R_DISABLED);
    if (result != -EINVAL) break;
  }
  if (result < 0) throw std::system_error{-result, std::generic_category(), "io_uring_setup"};
  // Before Linux 5.11, a wait with a timeout would need a submission of its own.
  if (!(ring_.features & IORING_FEAT_EXT_ARG)) {
    ::io_uring_queue_exit(&ring_);
    throw std::system_error{ENOSYS, std::generic_category(), "io_uring_enter with a timeout"};
  }
}

// A registration pins all of staging, page by page. So one ring registers, and the others share
// its registration if the kernel can clone it.
void uring_engine::share_staging(io_hooks const& hooks, uring_engine* first) {
  if (first != nullptr && first->buffers_registered_) {
    buffers_registered_ = clone_staging(hooks, *first) >= 0;
    if (buffers_registered_) return;
  }
  auto& registered = first != nullptr ? first->registered_ : registered_;
  auto const bytes = staging_bytes();
  if (first != nullptr && registered + bytes > most_registered) {
    notes_.push_back(
        fmt::format("io_uring reads into unregistered buffers: the kernel cannot share registered "
                    "buffers (Linux 6.12 can), and {} GiB are the most that gpufs registers; "
                    "lower host_threads, prefetch_memory or staging_size",
                    most_registered >> 30));
    return;
  }
  register_staging(hooks);
  if (buffers_registered_) registered += bytes;
}

int uring_engine::clone_staging(io_hooks const& hooks, uring_engine& first) {
  if (hooks.clone_buffers) return hooks.clone_buffers(&ring_, &first.ring_);
  clone_argument const argument{std::uint32_t(first.ring_.ring_fd), {}};
  return int(::syscall(SYS_io_uring_register, ring_.ring_fd, register_clone_buffers, &argument, 1));
}

void uring_engine::register_staging(io_hooks const& hooks) {
  if (staging_.empty()) return;
  std::vector<::iovec> pieces;
  for (auto const& range : staging_) {
    for (std::size_t at = 0; at < range.size(); at += piece_bytes)
      pieces.push_back({range.data() + at, std::min(piece_bytes, range.size() - at)});
  }
  int const result =
      hooks.register_buffers
          ? hooks.register_buffers(&ring_, pieces.data(), unsigned(pieces.size()))
          : ::io_uring_register_buffers(&ring_, pieces.data(), unsigned(pieces.size()));
  buffers_registered_ = result >= 0;
  if (result == -ENOMEM || result == -EPERM) {
    notes_.push_back(
        fmt::format("io_uring reads into unregistered buffers: the kernel refuses to lock {} MiB "
                    "of staging per thread ({}); raise the "
                    "locked-memory limit (ulimit -l), or lower prefetch_memory or staging_size",
                    (staging_bytes() + (1u << 20) - 1) >> 20, std::strerror(-result)));
  } else if (result < 0) {
    notes_.push_back(fmt::format(
        "io_uring reads into unregistered buffers: registering staging was refused ({})",
        std::strerror(-result)));
  }
}

void uring_engine::register_files(io_hooks const& hooks) {
  auto const places = std::min(file_places, limit_of_open_files());
  int const result = hooks.register_files ? hooks.register_files(&ring_, places)
                                          : ::io_uring_register_files_sparse(&ring_, places);
  if (result < 0) {
    notes_.push_back(
        fmt::format("io_uring reads unregistered files: a table of {} was refused ({})", places,
                    std::strerror(-result)));
    return;
  }
  free_entries_.reserve(places);
  for (unsigned i = places; i-- > 0;) free_entries_.push_back(int(i));
}

int uring_engine::attach() {
  if (enabled_) return 0;
  // liburing 2.3 declares io_uring_enable_rings() but its shared library does not export it.
  auto const result =
      ::syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  enabled_ = result >= 0;
  return enabled_ ? 0 : -errno;
}

// Where the descriptor is registered, -1 if it is not. A registration costs a system call, so a
// file read a few times only gets none.
int uring_engine::registration_of(read_source& source) {
  if (source.registration >= 0 || free_entries_.empty() || source.reads < reads_before_registration)
    return source.registration;
  if (source.reads > reads_before_registration) return -1;  // tried already
  int const entry = free_entries_.back();
  if (::io_uring_register_files_update(&ring_, unsigned(entry), &source.fd, 1) == 1) {
    free_entries_.pop_back();
    source.registration = entry;
  }
  return source.registration;
}

void uring_engine::forget(local_file& file) {
  forget(file.buffered);
  forget(file.direct);
}

void uring_engine::forget(read_source& source) {
  if (source.registration < 0) return;
  int const none = -1;
  // If this failed the place would still hold the file; it is then not handed out again.
  if (::io_uring_register_files_update(&ring_, unsigned(source.registration), &none, 1) == 1)
    free_entries_.push_back(source.registration);
  source.registration = -1;
}

std::size_t uring_engine::staging_bytes() const noexcept {
  std::size_t bytes = 0;
  for (auto const& range : staging_) bytes += range.size();
  return bytes;
}

// The registered buffer that has all of these bytes, -1 if none has.
int uring_engine::buffer_of(std::byte const* to, std::uint32_t length) const noexcept {
  if (!buffers_registered_) return -1;
  std::size_t first = 0;  // of the range
  for (auto const& range : staging_) {
    if (!std::less{}(to, range.data()) && std::less{}(to, range.data() + range.size())) {
      auto const at = std::size_t(to - range.data());
      auto const piece = at / piece_bytes;
      return piece == (at + length - 1) / piece_bytes ? int(first + piece) : -1;
    }
    first += (range.size() + piece_bytes - 1) / piece_bytes;
  }
  return -1;
}

std::optional<std::int64_t> uring_engine::submit(read_operation const& read) {
  if (gave_up_ || read.from->fd < 0) return read_now(read);
  auto* sqe = ::io_uring_get_sqe(
      &ring_);  // there is room: the queue has depth_ entries, of which in_flight_ at most are used
  auto const entry = registration_of(*read.from);
  auto const fd = entry >= 0 ? entry : read.from->fd;
  if (int const buffer = buffer_of(read.to, read.length); buffer >= 0)
    ::io_uring_prep_read_fixed(sqe, fd, read.to, read.length, read.offset, buffer);
  else
    ::io_uring_prep_read(sqe, fd, read.to, read.length, read.offset);
  if (entry >= 0) sqe->flags |= IOSQE_FIXED_FILE;
  sqe->user_data = read.cookie;
  ++in_flight_;
  waiting_.push_back(read);
  return std::nullopt;
}

void uring_engine::start() {
  if (waiting_.empty()) return;
  profiler_range const range{[this] { return text_of(waiting_); }};
  int const started = ::io_uring_submit(&ring_);
  if (started > 0) {
    refused_since_.reset();
    auto const end = std::min(waiting_.size(), std::size_t(started));
    waiting_.erase(waiting_.begin(), waiting_.begin() + std::ptrdiff_t(end));
    return;
  }
  // Out of memory, or results must be fetched first. The reads stay queued for the next poll.
  bool const may_pass =
      started == 0 || started == -EAGAIN || started == -EBUSY || started == -EINTR;
  auto const now = std::chrono::steady_clock::now();
  if (!refused_since_) refused_since_ = now;
  if (!may_pass || now - *refused_since_ > patience) give_up();
}

// The kernel may have changed its mind: a program can forbid itself io_uring at any time. Callers
// still get their bytes. The entries stay in the ring, but no call starts them any more. Reads that
// the kernel has started end as ever.
void uring_engine::give_up() {
  gave_up_ = true;
  for (auto const& read : waiting_) done_.push_back({read.cookie, read_now(read)});
  waiting_.clear();
}

std::size_t uring_engine::poll(std::span<read_result> out) {
  if (in_flight_ == 0) return 0;
  start();
  std::size_t const by_hand = std::min(out.size(), done_.size());
  std::copy_n(done_.end() - std::ptrdiff_t(by_hand), by_hand, out.begin());
  done_.resize(done_.size() - by_hand);
  ::io_uring_cqe* done[64];
  auto const rest = out.subspan(by_hand);
  auto const count =
      ::io_uring_peek_batch_cqe(&ring_, done, unsigned(std::min(rest.size(), std::size(done))));
  for (unsigned i = 0; i < count; ++i) rest[i] = {done[i]->user_data, done[i]->res};
  ::io_uring_cq_advance(&ring_, count);
  in_flight_ -= by_hand + count;
  return by_hand + count;
}

void uring_engine::wait(std::chrono::microseconds longest) {
  if (in_flight_ == 0) return;
  start();
  if (!done_.empty()) return;
  ::__kernel_timespec time{.tv_sec = longest.count() / 1000000,
                           .tv_nsec = longest.count() % 1000000 * 1000};
  ::io_uring_cqe* first = nullptr;
  // The caller polls next, and comes back if it finds no result.
  int const waited = ::io_uring_wait_cqe_timeout(&ring_, &first, &time);
  if (waited < 0 && waited != -ETIME && waited != -EINTR) idle_policy::sleep(longest);
}

}  // namespace gpufs::daemon
