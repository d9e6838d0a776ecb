#include <apps/common/generator.hpp>
#include <apps/common/storage_limits.hpp>
#include <apps/common/worker_threads.hpp>

#include <liburing.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>

namespace gpufs::apps {

namespace {

constexpr unsigned sequential_rings = 2, random_rings = 4;
constexpr unsigned depth = 128;
constexpr std::uint64_t large_read = 256 << 10;

[[noreturn]] void refuse(int error, char const* what) {
  throw std::system_error(error, std::generic_category(), what);
}

/// An io_uring of one thread, with buffers for `depth` reads.
class reader {
 public:
  explicit reader(std::uint64_t read_bytes)
      : read_bytes_(read_bytes), buffers_(std::aligned_alloc(4096, depth * read_bytes), std::free) {
    if (!buffers_) throw std::bad_alloc();
    if (int const error = ::io_uring_queue_init(depth, &ring_, 0); error < 0)
      refuse(-error, "io_uring");
  }
  ~reader() { ::io_uring_queue_exit(&ring_); }
  reader(reader const&) = delete;
  reader& operator=(reader const&) = delete;

  /// Reads at the offsets that `next_offset` gives, until it gives none.
  void run(int fd, std::function<std::optional<std::uint64_t>()> const& next_offset) {
    unsigned in_flight = 0;
    auto const submit_read = [&](std::uint64_t slot) {
      std::optional<std::uint64_t> const offset = next_offset();
      if (!offset) return;
      io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
      ::io_uring_prep_read(entry, fd, static_cast<char*>(buffers_.get()) + slot * read_bytes_,
                           static_cast<unsigned>(read_bytes_), *offset);
      ::io_uring_sqe_set_data64(entry, slot);
      ++in_flight;
    };
    for (unsigned slot = 0; slot < depth; ++slot) submit_read(slot);
    int failure = 0;
    while (in_flight != 0) {
      if (int const error = ::io_uring_submit_and_wait(&ring_, 1); error < 0 && error != -EINTR)
        refuse(-error, "io_uring");
      io_uring_cqe* entry = nullptr;
      while (::io_uring_peek_cqe(&ring_, &entry) == 0) {
        if (entry->res < 0) failure = -entry->res;
        std::uint64_t const slot = ::io_uring_cqe_get_data64(entry);
        ::io_uring_cqe_seen(&ring_, entry);
        --in_flight;
        if (failure == 0) submit_read(slot);
      }
    }
    if (failure != 0) refuse(failure, "a read with O_DIRECT");
  }

 private:
  std::uint64_t read_bytes_;
  std::unique_ptr<void, decltype(&std::free)> buffers_;
  io_uring ring_{};
};

/// Reads per second when `count` reads are done with `rings` rings; `offset_of` numbers them.
double reads_per_second(unsigned rings, int fd, std::uint64_t read_bytes, std::uint64_t count,
                        std::function<std::uint64_t(std::uint64_t)> const& offset_of) {
  std::atomic<std::uint64_t> next{0};
  auto const start = std::chrono::steady_clock::now();
  run_on_threads(rings, [&](unsigned) {
    reader(read_bytes).run(fd, [&]() -> std::optional<std::uint64_t> {
      std::uint64_t const i =
          next.fetch_add(1, std::memory_order_relaxed);  // a counter: orders nothing
      return i < count ? std::optional(offset_of(i)) : std::nullopt;
    });
  });
  return static_cast<double>(count) /
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Bytes per second of `count` reads one behind the other.
double sequential_rate(int fd, std::uint64_t read_bytes, std::uint64_t count) {
  return reads_per_second(sequential_rings, fd, read_bytes, count,
                          [=](std::uint64_t i) { return i * read_bytes; }) *
         static_cast<double>(read_bytes);
}

}  // namespace

storage_limits measure_storage_limits(host_file const& file, std::uint64_t most_bytes,
                                      std::uint64_t seed) {
  storage_limits l;
  constexpr std::uint64_t random_reads = 1 << 16;
  if (file.size() < large_read) {
    l.why_not = "the file is too small";
    return l;
  }
  try {
    host_file const direct(file.path(), O_DIRECT);
    l.sequential_GBps = sequential_rate(direct.descriptor(), large_read,
                                        std::min(most_bytes, file.size()) / large_read) /
                        1e9;
    std::uint64_t const ranges = file.size() / smallest_read;
    l.random_iops = reads_per_second(
        random_rings, direct.descriptor(), smallest_read, std::min(ranges, random_reads),
        [&](std::uint64_t i) { return generate_below(seed, i, ranges) * smallest_read; });
  } catch (std::system_error const& e) {
    l.why_not = e.what();
  }
  return l;
}

double read_past_page_cache(host_file const& file) {
  std::uint64_t const range = file.size() < large_read ? smallest_read : large_read;
  if (file.size() < range) refuse(EINVAL, file.path().c_str());
  return sequential_rate(host_file(file.path(), O_DIRECT).descriptor(), range, file.size() / range);
}

uring_facts look_at_uring(std::uint64_t bytes) {
  uring_facts f;
  io_uring ring{};
  if (int const error = ::io_uring_queue_init(depth, &ring, 0); error < 0) {
    f.refused = std::generic_category().message(-error);
    return f;
  }
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    f.buffers_refused = "no memory to try it with";
  } else {
    iovec const whole{memory, bytes};
    if (int const error = ::io_uring_register_buffers(&ring, &whole, 1); error < 0) {
      f.buffers_refused =
          std::generic_category().message(-error) + " (see the locked-memory limit, ulimit -l)";
    }
  }
  ::io_uring_queue_exit(&ring);
  if (memory != MAP_FAILED) ::munmap(memory, bytes);
  return f;
}

std::string try_direct_read(host_file const& file) {
  constexpr std::size_t bytes = 4096;
  try {
    host_file const direct(file.path(), O_DIRECT);
    std::unique_ptr<void, decltype(&std::free)> const memory(std::aligned_alloc(bytes, bytes),
                                                             std::free);
    direct.read(memory.get(), bytes, 0);
    return {};
  } catch (std::system_error const& e) {
    return e.code().message();
  }
}

}  // namespace gpufs::apps
