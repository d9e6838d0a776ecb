// Which buffers are written when, and who may touch them.
#include <host-daemon/file_registry.hpp>
#include <host-daemon/write_back.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

// A page that has not been written to for this long is written back without being asked: whoever
// fills it has gone on to the next.
constexpr std::chrono::nanoseconds settled{1'000'000};
constexpr std::chrono::microseconds look_again{1000};
// Written in one go at most: enough for long runs of small pages, short enough that nobody waits
// long for a page that is being written.
constexpr std::uint64_t batch_bytes = 1 << 20;
constexpr std::size_t batch_buffers = 256;
// How long a flush waits for a device thread that is adding bytes: as long as a copy may take on a
// device that others use, too.
constexpr std::chrono::seconds patience{10};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void set_up_thread(unsigned number) {
  ::pthread_setname_np(::pthread_self(), ("gpufs-wb-" + std::to_string(number)).c_str());
  ::sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

/// While it lives, a write beyond the process's file size limit gives EFBIG to this thread and no
/// signal to the process.
class no_size_signal {
 public:
  no_size_signal() {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    ::sigset_t pending;
    ::sigpending(&pending);
    foreign_ = ::sigismember(&pending, SIGXFSZ) == 1;
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~no_size_signal() {
    ::timespec const now{};
    if (!foreign_) ::sigtimedwait(&signal_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  no_size_signal(no_size_signal const&) = delete;
  no_size_signal& operator=(no_size_signal const&) = delete;

 private:
  ::sigset_t signal_, before_;
  bool foreign_;
};

}  // namespace

write_back::write_back(rpc::write_region const& region, fault_injector* faults)
    : region_{region}, faults_{faults}, watch_(region.count) {}

write_back::~write_back() {
  stop();
  static_cast<void>(flush(nullptr, insist::yes));
  for (auto const& line : unwritten())
    std::fprintf(stderr, "gpufs: lost, could not be written: %s\n", line.c_str());
}

void write_back::start(unsigned threads) {
  if (region_.count == 0 || !threads_.empty()) return;
  stopping_ = false;
  ending_.store(false, std::memory_order_relaxed);
  for (unsigned i = 0; i < threads; ++i)
    threads_.emplace_back([this, i, threads] { serve(i, threads); });
}

void write_back::stop() {
  {
    std::lock_guard const lock{jobs_mutex_};
    stopping_ = true;
  }
  ending_.store(true, std::memory_order_relaxed);
  wake_.notify_all();
  for (auto& t : threads_) t.join();
  threads_.clear();
}

void write_back::post(std::function<void()> job) {
  {
    std::lock_guard const lock{jobs_mutex_};
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void write_back::serve(unsigned number, unsigned threads) {
  set_up_thread(number);
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock{jobs_mutex_};
      if (jobs_.empty() && stopping_) return;
      if (!jobs_.empty()) {
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
    }
    if (job) {
      job();
      continue;
    }
    if (write_background(number, threads)) continue;
    std::unique_lock lock{jobs_mutex_};
    auto const something = [&] { return stopping_ || !jobs_.empty(); };
    bool idle = false;
    {
      std::lock_guard const files_lock{files_mutex_};
      idle = files_.empty();
    }
    // With no file open for writing nothing becomes dirty; attach() wakes.
    if (idle && !something()) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, look_again, something);
    }
  }
}

void write_back::attach(std::uint64_t uid, file_pointer file) {
  {
    std::lock_guard const order{
        jobs_mutex_};  // a thread that is about to sleep has looked at files_ under it
    std::lock_guard const lock{files_mutex_};
    files_.insert_or_assign(uid, std::move(file));
  }
  wake_.notify_all();
}

void write_back::forget(written_file const& file) {
  std::lock_guard const lock{files_mutex_};
  std::erase_if(files_, [&](auto const& entry) { return entry.second.get() == &file; });
}

// The words' peers are in gpufs/cache/write_buffer.hpp.
std::uint64_t write_back::posted(std::uint32_t i) const {
  return std::atomic_ref<std::uint64_t>{region_.posted[i]}.load(std::memory_order_acquire);
}
std::uint64_t write_back::written(std::uint32_t i) const {
  return std::atomic_ref<std::uint64_t>{region_.written[i]}.load(std::memory_order_acquire);
}
bool write_back::is_dirty(std::uint32_t i) const {
  return posted(i) >> rpc::posted_shift != written(i) >> rpc::written_shift;
}

write_back::file_pointer write_back::file_of(std::uint32_t i) const {
  auto const uid =
      std::atomic_ref<std::uint64_t>{region_.headers[i].uid}.load(std::memory_order_relaxed);
  std::lock_guard const lock{files_mutex_};
  auto const found = files_.find(uid);
  return found == files_.end() ? nullptr : found->second;
}

// True: the buffer is dirty, and neither another thread nor the device touches it until
// release_buffer().
bool write_back::hold_buffer(std::uint32_t i, insist how, held_buffer& out) {
  auto& claimed = watch_[i].claimed;
  if (claimed.load(std::memory_order_relaxed) || claimed.exchange(true, std::memory_order_acquire))
    return false;
  auto const before = written(i);
  std::atomic_ref<std::uint64_t> const ours{region_.written[i]};
  auto word = posted(i);
  bool held = word >> rpc::posted_shift != before >> rpc::written_shift &&
              (how == insist::yes || !(word & rpc::posted_busy));
  if (held) {
    // Pairs with open_buffer(): of the device's busy and our held, at least one sees the other.
    ours.store(before | rpc::written_held, std::memory_order_seq_cst);
    word = std::atomic_ref<std::uint64_t>{region_.posted[i]}.load(std::memory_order_seq_cst);
    if ((word & rpc::posted_busy) != 0 && how == insist::no) {
      ours.store(before, std::memory_order_release);
      held = false;
    }
  }
  if (!held) {
    claimed.store(false, std::memory_order_release);
    return false;
  }
  out = {i, word >> rpc::posted_shift, page_of(i), file_of(i), false};
  return true;
}

void write_back::release_buffer(held_buffer const& held, bool clean) {
  auto const i = held.number;
  auto const before = written(i) >> rpc::written_shift;
  // Pairs with the device's acquire in is_clean() and open_buffer(): our reads of the buffer are
  // over, and the file has its bytes.
  std::atomic_ref<std::uint64_t>{region_.written[i]}.store(
      (clean ? held.sequence : before) << rpc::written_shift, std::memory_order_seq_cst);
  watch_[i].claimed.store(false, std::memory_order_release);
}

bool write_back::wanted_now(std::uint32_t i, bool pressed) {
  auto const word = posted(i);
  auto const sequence = word >> rpc::posted_shift;
  if ((word & rpc::posted_busy) != 0 || sequence == written(i) >> rpc::written_shift) return false;
  auto& w = watch_[i];
  if (w.failed.load(std::memory_order_relaxed) == sequence) return false;
  if (pressed || (word & rpc::posted_urgent) != 0) return true;
  if (w.seen.exchange(sequence, std::memory_order_relaxed) != sequence) {
    w.seen_at.store(now_ns(), std::memory_order_relaxed);
    return false;
  }
  return now_ns() - w.seen_at.load(std::memory_order_relaxed) >= settled.count();
}

// Writes one batch of what should not stay dirty longer. False if there is nothing.
bool write_back::write_background(unsigned number, unsigned threads) {
  auto const count = std::uint32_t(region_.count);
  auto const begin = std::uint32_t(std::uint64_t(count) * number / threads);
  auto const end = std::uint32_t(std::uint64_t(count) * (number + 1) / threads);
  bool pressed = hurried_.load(std::memory_order_relaxed) != 0;
  if (!pressed) {  // this thread's part of the buffers stands for all
    std::uint64_t dirty = 0;
    for (auto i = begin; i < end; ++i) dirty += is_dirty(i) ? 1 : 0;
    pressed = dirty * 2 > end - begin;
  }
  std::vector<held_buffer> held;
  auto const most = std::clamp<std::size_t>(batch_bytes >> region_.page_shift, 1, batch_buffers);
  for (std::uint32_t n = 0; n < count && held.size() < most; ++n) {
    if (n == end - begin && !held.empty())
      break;  // what lies beyond is the others' work unless there is none here
    auto const i = begin + n < count ? begin + n : begin + n - count;
    held_buffer buffer;
    if (wanted_now(i, pressed) && hold_buffer(i, insist::no, buffer))
      held.push_back(std::move(buffer));
  }
  write(held);
  return !held.empty();
}

int write_back::flush(written_file const* file) { return flush(file, insist::no); }

int write_back::flush(written_file const* file, insist how) {
  struct target {
    std::uint32_t number;
    std::uint64_t sequence;
  };
  std::vector<target> targets;
  auto const failures = failures_.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < region_.count; ++i) {
    auto const sequence = posted(i) >> rpc::posted_shift;
    if (sequence != written(i) >> rpc::written_shift &&
        (file == nullptr || file_of(i).get() == file))
      targets.push_back({i, sequence});
  }
  if (targets.empty()) return 0;
  no_size_signal const guard;
  hurried_.fetch_add(1, std::memory_order_relaxed);
  wake_.notify_all();
  auto const most = std::clamp<std::size_t>(batch_bytes >> region_.page_shift, 1, batch_buffers);
  int result = 0;
  for (auto last_progress = clock::now(); !targets.empty();) {
    std::vector<held_buffer> held;
    for (auto const& t : targets) {
      if (held.size() == most) break;
      held_buffer buffer;
      if (watch_[t.number].failed_at.load(std::memory_order_relaxed) <= failures &&
          hold_buffer(t.number, how, buffer))
        held.push_back(std::move(buffer));
    }
    write(held);
    auto const done = std::erase_if(targets, [&](target const& t) {
      if (written(t.number) >> rpc::written_shift >= t.sequence) return true;
      bool const failed = watch_[t.number].failed_at.load(std::memory_order_acquire) > failures;
      if (failed) result = -EIO;
      return failed;
    });
    if (done != 0) {
      last_progress = clock::now();
    } else if (held.empty()) {
      if (clock::now() - last_progress > patience) {
        result = -ETIMEDOUT;
        break;
      }
      std::this_thread::sleep_for(
          std::chrono::microseconds{20});  // another thread writes it, or the device adds to it
    }
  }
  hurried_.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

int write_back::sync(written_file& file) {
  int const flushed = flush(&file);
  int error = 0;
  if (faults_ != nullptr) {
    auto const action = faults_->before_sync(file.host->fd());
    if (action.what == fault_action::kind::fail) error = action.error;
  }
  if (error == 0 && ::fdatasync(file.host->fd()) != 0 && errno != EINVAL && errno != EROFS)
    error = errno;
  int const first = take_error(file);
  if (first != 0) return first;
  return error != 0 ? -error : flushed == -ETIMEDOUT ? flushed : 0;
}

int write_back::take_error(written_file& file) {
  int const error = file.error.exchange(0, std::memory_order_acq_rel);
  if (error != 0) show_error(file, 0);
  return error;
}

// Lets gwrite see it.
void write_back::show_error(written_file const& file, int error) {
  for (auto const* const place : {&file.place, &file.once_place})
    if (auto const p = place->load(std::memory_order_relaxed); p != 0)
      std::atomic_ref<std::uint64_t>{region_.errors[p - 1]}.store(std::uint64_t(error),
                                                                  std::memory_order_release);
}

}  // namespace gpufs::daemon
