// Writing on demand: flush, sync, and the error that a file keeps until it is reported.
#include <host-daemon/backend/stored_file.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <time.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>

#include <signal.h>

namespace gpufs::daemon {

namespace {

// The longest time without progress, while a device thread adds bytes or another thread writes. A
// copy on a shared device may take as long.
constexpr std::chrono::seconds patience{10};

/// While it lives, a write beyond the process's file size limit gives EFBIG to this thread. The
/// process gets no SIGXFSZ.
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

int write_back::flush(written_file const* file) { return flush(file, insist::no); }

int write_back::flush(written_file const* file, insist how) {
  struct target {
    std::uint32_t number;
    std::uint64_t sequence;
  };
  std::vector<target> targets;
  auto const failures = failures_.load(std::memory_order_relaxed);
  each_marked(file, [&](std::uint32_t i) {
    auto const sequence = posted(i) >> rpc::posted_shift;
    if (sequence != written(i) >> rpc::written_shift &&
        (file == nullptr || file_of(i).get() == file))
      targets.push_back({i, sequence});
  });
  if (targets.empty()) return 0;
  no_size_signal const guard;
  auto const most = batch_size();
  hurried_.fetch_add(1, std::memory_order_relaxed);
  if (targets.size() > most) wake_.notify_all();  // this thread needs help
  int result = 0;
  for (auto last_progress = clock::now(); !targets.empty();) {
    std::vector<locked_buffer> locked;
    for (auto const& t : targets) {
      if (locked.size() == most) break;
      locked_buffer buffer;
      if (watch_[t.number].failed_at.load(std::memory_order_relaxed) <= failures &&
          lock_buffer(t.number, how, buffer))
        locked.push_back(std::move(buffer));
    }
    write(locked);
    auto const done = std::erase_if(targets, [&](target const& t) {
      if (written(t.number) >> rpc::written_shift >= t.sequence) return true;
      bool const failed = watch_[t.number].failed_at.load(std::memory_order_acquire) > failures;
      if (failed) result = -EIO;
      return failed;
    });
    if (done != 0) {
      last_progress = clock::now();
    } else if (locked.empty()) {
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
    auto const action = faults_->before_sync(file.host->read_descriptor());
    if (action.what == fault_action::kind::fail) error = -action.error;
  }
  if (error == 0) error = file.host->sync();
  int const first = take_error(file);
  if (first != 0) return first;
  return error != 0 ? error : flushed == -ETIMEDOUT ? flushed : 0;
}

int write_back::take_error(written_file& file) {
  int const error = file.error.exchange(0, std::memory_order_acq_rel);
  if (error != 0) show_error(file, 0);
  return error;
}

// Stores the error, or 0, where gwrite looks.
void write_back::show_error(written_file const& file, int error) {
  for (auto const* const write_index : {&file.write_index, &file.once_write_index})
    if (auto const p = write_index->load(std::memory_order_relaxed); p != 0)
      std::atomic_ref<std::uint64_t>{region_.errors[p - 1]}.store(std::uint64_t(error),
                                                                  std::memory_order_release);
}

}  // namespace gpufs::daemon
