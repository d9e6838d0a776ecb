#include <gpufs/device.hpp>

#include <apps/baseline/original_host.hpp>
#include <apps/common/transfer.hpp>

#include <cerrno>
#include <exception>
#include <optional>

#include <unistd.h>

namespace gpufs::apps::original {

namespace {

// A thread's counters: nobody else writes them, and nothing is ordered by them.
void add(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}
std::uint64_t value(std::atomic<std::uint64_t> const& counter) {
  return counter.load(std::memory_order_relaxed);
}

}  // namespace

/// A thread's stream of copies.
class mover {
 public:
  /// Makes the stream, so that the first copy need not. Throws device_error.
  void prepare() { queue_.emplace(); }

  /// Returns when the bytes are on the device. Throws device_error.
  void move(std::byte* device, std::byte const* host, std::uint64_t bytes) {
    if (!queue_) queue_.emplace();
    queue_->copy_to_device(device, host, bytes);
    queue_->synchronize();
  }

 private:
  std::optional<transfer_queue> queue_;
};

host_threads::host_threads(host_file const& file, original::ref const& queue, std::byte* buffers,
                           options const& o)
    : file_(file), queue_(queue), options_(o), members_(o.host_threads) {
  try {
    for (unsigned t = 0; t < o.host_threads; ++t) {
      member& m = members_[t];
      m.first_slot = static_cast<std::uint32_t>(std::uint64_t(t) * o.slots / o.host_threads);
      m.end_slot = static_cast<std::uint32_t>(std::uint64_t(t + 1) * o.slots / o.host_threads);
      m.bytes_read = buffers + t * (o.page_size + o.readahead);
      m.answered.assign(m.end_slot - m.first_slot, 0);
      m.thread = std::thread([this, &m] { serve(m); });
    }
  } catch (...) {
    end();
    throw;
  }
}

host_threads::~host_threads() { end(); }

void host_threads::end() noexcept {
  stop_.store(true, std::memory_order_relaxed);  // the joins order
  for (member& m : members_) {
    if (m.thread.joinable()) m.thread.join();
  }
}

void host_threads::serve(member& m) noexcept {
  mover to_device;
  try {
    if (options_.transfers) to_device.prepare();
  } catch (std::exception const& e) {
    fail(e.what());  // each request will try again, and fail
  }
  while (!stop_.load(std::memory_order_relaxed)) {
    // Pairs with the release in start_counting().
    std::uint64_t const since = counting_since_.load(std::memory_order_acquire);
    if (since != m.counting_since.load(std::memory_order_relaxed)) start_over(m, since);
    if (poll(m, to_device)) continue;
    add(m.idle_polls);
    if (value(m.requests) == 0) add(m.polls_before_first);
    std::this_thread::yield();
  }
}

bool host_threads::poll(member& m, mover& to_device) noexcept {
  bool any = false;
  for (std::uint32_t slot = m.first_slot; slot < m.end_slot; ++slot) {
    std::uint32_t& answered = m.answered[slot - m.first_slot];
    // Pairs with the device's release in request_bytes().
    std::uint32_t const number =
        atomic_ref<std::uint32_t, scope::system>(queue_.requests[slot].number)
            .load(memory_order_acquire);
    if (number == answered) continue;
    std::int32_t const result = carry_out(m, to_device, slot);
    add(m.requests);
    any = true;
    answered = number;
    // Pairs with the acquire of the block that waits: who sees the number sees the page in staging.
    atomic_ref<std::uint64_t, scope::system>(queue_.answers[slot].word)
        .store(std::uint64_t(number) << 32 | static_cast<std::uint32_t>(result),
               memory_order_release);
  }
  return any;
}

std::int32_t host_threads::carry_out(member& m, mover& to_device, std::uint32_t slot) noexcept {
  request_slot& r = queue_.requests[slot];
  // Ordered by the acquire of the number.
  std::uint64_t const offset =
      atomic_ref<std::uint64_t, scope::system>(r.offset).load(memory_order_relaxed);
  std::uint64_t const bytes =
      atomic_ref<std::uint64_t, scope::system>(r.bytes).load(memory_order_relaxed);
  if (bytes > options_.page_size + options_.readahead) return -EINVAL;
  try {
    if (options_.record) m.trace.push_back({offset, bytes});
    ssize_t got;
    do {
      got = ::pread(file_.descriptor(), m.bytes_read, bytes, static_cast<off_t>(offset));
    } while (got < 0 && errno == EINTR);
    if (got < 0) return -errno;
    if (options_.transfers && got > 0) {
      to_device.move(queue_.staging_of(slot), m.bytes_read, static_cast<std::uint64_t>(got));
      add(m.bytes, static_cast<std::uint64_t>(got));
    }
    return static_cast<std::int32_t>(got);
  } catch (std::bad_alloc const&) {
    return -ENOMEM;
  } catch (std::exception const& e) {
    fail(e.what());
    return -EIO;
  }
}

void host_threads::start_over(member& m, std::uint64_t since) noexcept {
  for (auto* counter : {&m.requests, &m.idle_polls, &m.polls_before_first, &m.bytes})
    counter->store(0, std::memory_order_relaxed);
  m.trace.clear();
  m.counting_since.store(since,
                         std::memory_order_release);  // pairs with the acquire in start_counting()
}

void host_threads::start_counting() {
  std::uint64_t const since = counting_since_.load(std::memory_order_relaxed) + 1;
  counting_since_.store(since, std::memory_order_release);
  for (member& m : members_) {
    while (m.counting_since.load(std::memory_order_acquire) != since) std::this_thread::yield();
  }
}

std::vector<thread_statistics> host_threads::stats() const {
  std::vector<thread_statistics> all;
  for (member const& m : members_) {
    all.push_back({value(m.requests), value(m.idle_polls), value(m.polls_before_first), m.trace});
  }
  return all;
}

std::uint64_t host_threads::bytes_moved() const {
  std::uint64_t sum = 0;
  for (member const& m : members_) sum += value(m.bytes);
  return sum;
}

void host_threads::fail(char const* what) noexcept {
  try {
    std::lock_guard const lock(mutex_);
    if (failure_.empty()) failure_ = what;
  } catch (std::exception const&) {
    return;  // no memory for the message: the answer says that it failed
  }
}

std::string host_threads::failure() const {
  std::lock_guard const lock(mutex_);
  return failure_;
}

}  // namespace gpufs::apps::original
