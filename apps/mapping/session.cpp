#include <apps/common/seconds_since.hpp>
#include <apps/mapping/session.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include <unistd.h>

namespace gpufs::apps::workloads {

namespace {

mapping_config config_of(setup const& of, way const& how) {
  mapping_config c = of.memory;
  c.backing = how.backing;
  c.protocol = how.protocol;
  c.coherence_block = how.block;
  c.rolling_size = how.rolling;
  return c;
}

/// Calls `move(done)` until all bytes are moved. It returns as shared_memory::read().
template <class Function>
void move_all(char const* what, std::uint64_t bytes, Function const& move) {
  for (std::uint64_t done = 0; done < bytes;) {
    std::int64_t const n = move(done);
    if (n == -EINTR) continue;
    if (n <= 0) throw std::system_error(n == 0 ? EIO : int(-n), std::generic_category(), what);
    done += static_cast<std::uint64_t>(n);
  }
}

std::int64_t or_errno(ssize_t n) { return n < 0 ? -errno : n; }

}  // namespace

session::session(setup const& of, way const& how) : how_(how), is_declared_(of.is_declared) {
  if (how.how == variant::shared) memory_ = std::make_unique<shared_memory>(config_of(of, how));
}

session::~session() = default;

std::uint64_t session::block_for(std::uint64_t bytes, allocation const& how) const {
  if (how_.block != block_automatic) return how_.block;
  if (how.block != block_automatic) return how.block;
  // The rule of block_automatic.
  std::uint64_t block = 64 << 10;
  while (block < 2 << 20 && block * 2 <= bytes / 16) block *= 2;
  return block;
}

session::kernel_span& session::begin_kernel() {
  if (open_spans_ == spans_.size()) spans_.push_back(std::make_unique<kernel_span>());
  auto& span = *spans_[open_spans_++];
  span.begin.record(this_thread_stream());
  ++launches_;
  return span;
}

void session::synchronize() {
  auto const in = time(phase::synchronise);
  auto const start = std::chrono::steady_clock::now();
  if (memory_)
    memory_->synchronize();
  else
    this_thread_stream().synchronize();
  double const kernels = take_kernel_times();
  clock_.add(phase::kernels, kernels);
  // What kernels took is no longer time of the wait.
  clock_.add(phase::synchronise, -std::min(kernels, seconds_since(start)));
}

double session::take_kernel_times() {
  double seconds = 0;
  for (std::size_t i = 0; i < open_spans_; ++i) {
    spans_[i]->end.synchronize();
    double const span = event::seconds_between(spans_[i]->begin, spans_[i]->end);
    seconds += std::max(0.0, span - spans_[i]->release);
  }
  open_spans_ = 0;
  return seconds;
}

void session::declare(shared_call& call, used const& u) {
  if (u.use == access::read)
    call.reads(*u.what);
  else if (u.use == access::write)
    call.writes(*u.what);
  else
    call.reads_writes(*u.what);
}

void session::read_bytes(int fd, std::uint64_t offset, void* to, std::uint64_t bytes) {
  auto const in = time(phase::io_read);
  auto* const at = static_cast<std::byte*>(to);
  move_all("reading into an object", bytes, [&](std::uint64_t done) {
    return memory_ ? memory_->pread(fd, at + done, bytes - done, offset + done)
                   : or_errno(::pread(fd, at + done, bytes - done, off_t(offset + done)));
  });
}

void session::write_bytes(int fd, std::uint64_t offset, void const* from, std::uint64_t bytes) {
  auto const in = time(phase::io_write);
  auto const* const at = static_cast<std::byte const*>(from);
  move_all("writing from an object", bytes, [&](std::uint64_t done) {
    return memory_ ? memory_->pwrite(fd, at + done, bytes - done, offset + done)
                   : or_errno(::pwrite(fd, at + done, bytes - done, off_t(offset + done)));
  });
}

mapping_statistics session::statistics() const {
  return memory_ ? memory_->stats() : mapping_statistics{};
}

}  // namespace gpufs::apps::workloads
